-- +goose Up

-- The workers that have streams to a replica, as it saw them last.
CREATE TABLE workers (
  replica TEXT NOT NULL,
  id TEXT NOT NULL,
  pool TEXT NOT NULL,
  slots BIGINT NOT NULL,
  version TEXT NOT NULL,
  started_at BIGINT NOT NULL,    -- of the process
  draining BOOLEAN NOT NULL,     -- it is to take no run any more
  PRIMARY KEY (replica, id)
);

-- +goose Down
DROP TABLE workers;

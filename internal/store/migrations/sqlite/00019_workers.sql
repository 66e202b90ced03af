-- +goose Up

-- The workers that have streams to a replica, as it saw them last.
CREATE TABLE workers (
  replica TEXT NOT NULL,
  id TEXT NOT NULL,
  pool TEXT NOT NULL,
  slots INTEGER NOT NULL,
  version TEXT NOT NULL,
  started_at INTEGER NOT NULL,   -- of the process
  draining INTEGER NOT NULL,     -- it is to take no run any more
  PRIMARY KEY (replica, id)
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE workers;

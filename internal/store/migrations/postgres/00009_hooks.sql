-- +goose Up

-- How far hooks have come in the current run, and whom to call when runs end.
ALTER TABLE tasks ADD COLUMN start_hooked BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE tasks ADD COLUMN stop_hooked BIGINT NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN on_complete TEXT NOT NULL DEFAULT '';

-- Calls that are still to be made, each because a run has ended.
CREATE TABLE callbacks (
  session BYTEA NOT NULL,
  task    BYTEA NOT NULL,
  run     BIGINT NOT NULL,
  url     TEXT NOT NULL,
  tries   BIGINT NOT NULL,
  due     BIGINT NOT NULL,
  PRIMARY KEY (session, task, run)
);
CREATE INDEX callbacks_due ON callbacks (due);

-- +goose Down
DROP TABLE callbacks;
ALTER TABLE tasks DROP COLUMN on_complete;
ALTER TABLE tasks DROP COLUMN stop_hooked;
ALTER TABLE tasks DROP COLUMN start_hooked;

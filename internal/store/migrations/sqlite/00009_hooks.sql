-- +goose Up

-- How far hooks have come in the current run, and whom to call when runs end.
ALTER TABLE tasks ADD COLUMN start_hooked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN stop_hooked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN on_complete TEXT NOT NULL DEFAULT '';

-- Calls that are still to be made, each because a run has ended.
CREATE TABLE callbacks (
  session BLOB NOT NULL,
  task    BLOB NOT NULL,
  run     INTEGER NOT NULL,
  url     TEXT NOT NULL,
  tries   INTEGER NOT NULL,
  due     INTEGER NOT NULL,
  PRIMARY KEY (session, task, run)
) STRICT, WITHOUT ROWID;
CREATE INDEX callbacks_due ON callbacks (due);

-- +goose Down
DROP TABLE callbacks;
ALTER TABLE tasks DROP COLUMN on_complete;
ALTER TABLE tasks DROP COLUMN stop_hooked;
ALTER TABLE tasks DROP COLUMN start_hooked;

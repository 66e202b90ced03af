-- +goose Up

-- The tag that a session's last ready run was given.
ALTER TABLE sessions ADD COLUMN fair_tag INTEGER NOT NULL DEFAULT 0;

-- The tag of the run that was offered last: a session that was idle starts there.
ALTER TABLE meta ADD COLUMN fair_now INTEGER NOT NULL DEFAULT 0;

UPDATE sessions SET fair_tag = coalesce((SELECT max(fair_tag) FROM ready WHERE session = sessions.id), 0);
UPDATE meta SET fair_now = coalesce((SELECT min(fair_tag) - 1 FROM ready), 0);

-- +goose Down
ALTER TABLE meta DROP COLUMN fair_now;
ALTER TABLE sessions DROP COLUMN fair_tag;

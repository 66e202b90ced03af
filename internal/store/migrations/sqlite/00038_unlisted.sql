-- +goose Up

-- Some ready runs of the session have no row of ready.
ALTER TABLE sessions ADD COLUMN unlisted INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_unlisted ON sessions (id) WHERE unlisted;

-- +goose Down

-- Each ready run has a row.
INSERT INTO ready (session, task, epoch, priority, fair_tag, at, announced_until, tenant, replica, precedence)
SELECT sessions.id, tasks.id, tasks.epoch, tasks.priority, sessions.fair_tag, tasks.moved_at, 0, sessions.tenant, '', tasks.depth - 1
FROM sessions JOIN tasks ON tasks.session = sessions.id
LEFT JOIN attempts ON attempts.session = tasks.session AND attempts.task = tasks.id AND attempts.epoch = tasks.epoch
LEFT JOIN ready AS listed ON listed.session = tasks.session AND listed.task = tasks.id
WHERE sessions.unlisted AND tasks.state = 2 AND attempts.task IS NULL AND listed.task IS NULL;
DROP INDEX sessions_unlisted;
ALTER TABLE sessions DROP COLUMN unlisted;

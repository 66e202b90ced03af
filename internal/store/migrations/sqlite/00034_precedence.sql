-- +goose Up

-- Which of a session's runs goes first: the one that has most; most have 0.
ALTER TABLE ready ADD COLUMN precedence INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ready_first ON ready (session, priority, precedence DESC, fair_tag) WHERE announced_until <= 0 AND precedence > 0;

-- +goose Down
DROP INDEX ready_first;
ALTER TABLE ready DROP COLUMN precedence;

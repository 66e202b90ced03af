-- +goose Up

-- The replica that has made a run ready, which knows its session best.
ALTER TABLE ready ADD COLUMN replica TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE ready DROP COLUMN replica;

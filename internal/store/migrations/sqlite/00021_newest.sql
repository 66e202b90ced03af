-- +goose Up

-- Without the id: of a table with a single row, when it was counted, a database takes this
-- index for as good as the key to find a session by its id.
DROP INDEX sessions_newest;
CREATE INDEX sessions_newest ON sessions (tenant, created_at);

-- +goose Down
DROP INDEX sessions_newest;
CREATE INDEX sessions_newest ON sessions (tenant, created_at, id);

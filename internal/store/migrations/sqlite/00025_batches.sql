-- +goose Up

-- There is nothing to do: a database of one process has no such table.

-- +goose Down

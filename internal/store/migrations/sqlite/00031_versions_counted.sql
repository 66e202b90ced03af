-- +goose Up

-- There is nothing to do: one process has the file.

-- +goose Down

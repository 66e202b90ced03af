-- +goose Up

-- There is nothing to do: a zero takes no more room than NULL.

-- +goose Down

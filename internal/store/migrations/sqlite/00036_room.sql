-- +goose Up

-- There is nothing to do: pages have no room that could be kept free.

-- +goose Down

-- +goose Up

-- There is nothing to do: what is packed is in one piece.

-- +goose Down

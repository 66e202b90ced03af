-- +goose Up

-- The first messages of many tasks are often stored together, in the order of the key. What each
-- task says later comes in between, and finds room on the page.
ALTER INDEX messages_pkey SET (fillfactor = 50);

-- +goose Down
ALTER INDEX messages_pkey RESET (fillfactor);

-- +goose Up

-- How many bytes of what an approval is about are left out: what was asked before does not say.
ALTER TABLE approvals ADD COLUMN argument_cut INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE approvals DROP COLUMN argument_cut;

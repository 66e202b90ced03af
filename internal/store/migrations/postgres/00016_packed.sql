-- +goose Up

-- The result of a call if it is large, as a frame of Zstandard; then text says so. A
-- message's body that is large begins with a zero byte, and a frame follows.
ALTER TABLE calls ADD COLUMN packed BYTEA;

-- The form of rows that a replica reads: 1 with what is packed, which nobody writes
-- while a replica is known that reads less.
ALTER TABLE replicas ADD COLUMN row_form BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE replicas DROP COLUMN row_form;
ALTER TABLE calls DROP COLUMN packed;

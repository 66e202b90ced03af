-- +goose Up

-- What is packed already is not worth a try to compress it. Text may have its first bytes,
-- instead of saying so.
ALTER TABLE calls ALTER COLUMN packed SET STORAGE EXTERNAL;

-- +goose Down
UPDATE calls SET packed = text || packed, text = '(packed)' WHERE packed IS NOT NULL AND text <> '(packed)';
ALTER TABLE calls ALTER COLUMN packed SET STORAGE EXTENDED;

-- +goose Up

-- What callbacks a host has: the start of the URL, up to the path, of which no URL has less than
-- "http://a". Of a host that is longer than names may be, the end does not count.
CREATE INDEX callbacks_host ON callbacks (
  lower(substr(url, 1, instr(replace(replace(substr(url, 9, 300), '?', '/'), '#', '/') || '/', '/') + 7)), due
);
DROP INDEX callbacks_due;

-- +goose Down
CREATE INDEX callbacks_due ON callbacks (due);
DROP INDEX callbacks_host;

-- +goose Up

-- The URL to call when something asks in a session; of an open approval whom to call, how often
-- that was tried, and when it may be again.
ALTER TABLE sessions ADD COLUMN on_approval TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN url TEXT NOT NULL DEFAULT '';
ALTER TABLE approvals ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
ALTER TABLE approvals ADD COLUMN call_due INTEGER;

-- What such callbacks a host has, which is as in migration 29. A replica of the release before
-- that decides on an approval leaves its callback: that is of no open approval, and not found.
CREATE INDEX approvals_host ON approvals (
  lower(substr(url, 1, instr(replace(replace(substr(url, 9, 300), '?', '/'), '#', '/') || '/', '/') + 7)), call_due
) WHERE state = 1 AND call_due IS NOT NULL;

-- +goose Down
DROP INDEX approvals_host;
ALTER TABLE approvals DROP COLUMN call_due;
ALTER TABLE approvals DROP COLUMN tries;
ALTER TABLE approvals DROP COLUMN url;
ALTER TABLE sessions DROP COLUMN on_approval;

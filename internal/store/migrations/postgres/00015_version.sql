-- +goose Up

-- A replica holds what its last commit has left of a session, and goes on with it if
-- nobody else has changed the session since: then its version is another one.
ALTER TABLE sessions ADD COLUMN version bigint NOT NULL DEFAULT 0;

-- Whoever loses the connection while it commits declares the transaction void, and learns
-- with it whether it was committed before.
ALTER TABLE batches ADD COLUMN void boolean NOT NULL DEFAULT false;

-- Replicas of earlier releases know nothing of versions. Others say so of themselves, with
-- the setting coppice.versions.
-- +goose StatementBegin
CREATE FUNCTION coppice_count_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  RETURN NEW;
END $$;
-- +goose StatementEnd
CREATE TRIGGER sessions_version BEFORE UPDATE ON sessions FOR EACH ROW
WHEN (NEW.version = OLD.version) EXECUTE FUNCTION coppice_count_version();

-- +goose StatementBegin
CREATE FUNCTION coppice_count_version_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE sessions SET version = version + 1 WHERE id = NEW.session;
  RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER tasks_version AFTER INSERT OR UPDATE ON tasks FOR EACH ROW
WHEN (current_setting('coppice.versions', true) IS DISTINCT FROM 'counted') EXECUTE FUNCTION coppice_count_version_of_task();

-- +goose Down
DROP TRIGGER tasks_version ON tasks;
DROP FUNCTION coppice_count_version_of_task;
DROP TRIGGER sessions_version ON sessions;
DROP FUNCTION coppice_count_version;
ALTER TABLE batches DROP COLUMN void;
ALTER TABLE sessions DROP COLUMN version;

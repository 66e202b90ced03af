-- +goose NO TRANSACTION
-- +goose Up

-- They counted versions for replicas that did not (see migration 15). The release before
-- does, and each row cost PostgreSQL a call. Each statement is a transaction, since others lock
-- sessions before tasks; so any of them may be made again.
DROP TRIGGER IF EXISTS tasks_version ON tasks;
DROP TRIGGER IF EXISTS sessions_version ON sessions;
DROP FUNCTION IF EXISTS coppice_count_version_of_task;
DROP FUNCTION IF EXISTS coppice_count_version;

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION coppice_count_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.version := OLD.version + 1;
  RETURN NEW;
END $$;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS sessions_version ON sessions;
CREATE TRIGGER sessions_version BEFORE UPDATE ON sessions FOR EACH ROW
WHEN (NEW.version = OLD.version) EXECUTE FUNCTION coppice_count_version();

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION coppice_count_version_of_task() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE sessions SET version = version + 1 WHERE id = NEW.session;
  RETURN NULL;
END $$;
-- +goose StatementEnd
DROP TRIGGER IF EXISTS tasks_version ON tasks;
CREATE TRIGGER tasks_version AFTER INSERT OR UPDATE ON tasks FOR EACH ROW
WHEN (current_setting('coppice.versions', true) IS DISTINCT FROM 'counted') EXECUTE FUNCTION coppice_count_version_of_task();

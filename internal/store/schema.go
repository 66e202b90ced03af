package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	versions "github.com/pressly/goose/v3/database"
)

// newSchema is a file with the schema that all migrations together create (TestNewSchema). Running
// the migrations one by one, each with a sync, would take half of the time until a new process has
// its first result.
const newSchema = "migrations/sqlite.sql"

// migrate brings the schema up to date.
func migrate(ctx context.Context, db *sql.DB) error {
	folder, err := fs.Sub(files, "migrations/sqlite")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, folder)
	if err != nil {
		return err
	}
	// A later release writes newer forms of rows at once, because only one process uses the file.
	there, known, err := provider.GetVersions(ctx)
	doing := "reading the version of its schema"
	switch {
	case err != nil:
	case there > known:
		return fmt.Errorf("a later release has already migrated it: its schema version is %d, and this release supports up to %d", there, known)
	case there == 0:
		doing, err = "creating its schema", makeSchema(ctx, db, provider.ListSources())
	default:
		doing = "migrating its schema"
		_, err = provider.Up(ctx)
	}
	if err != nil {
		// The error of a transaction that ctx has ended does not mention ctx.
		return fmt.Errorf("%s: %w", doing, errors.Join(ctx.Err(), err))
	}
	return nil
}

// makeSchema creates the schema in an empty database, and records all migrations as done.
func makeSchema(ctx context.Context, db *sql.DB, migrations []*goose.Source) error {
	schema, err := fs.ReadFile(files, newSchema)
	if err != nil {
		return err
	}
	kept, err := versions.NewStore(goose.DialectSQLite3, goose.DefaultTablename)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, string(schema))
	for _, m := range migrations {
		if err == nil {
			err = kept.Insert(ctx, tx, versions.InsertRequest{Version: m.Version})
		}
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

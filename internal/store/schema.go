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

// newSchema is a file with what the migrations make of an empty database (TestNewSchema). One by
// one, with a sync each, they take half of the time until a new process has its first result.
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
	// Rows of a later form are written at once where nobody else could have to read them.
	there, known, err := provider.GetVersions(ctx)
	switch {
	case err != nil:
	case there > known:
		return fmt.Errorf("a later release has done so: its schema is %d, and this release knows %d", there, known)
	case there == 0:
		err = makeSchema(ctx, db, provider.ListSources())
	default:
		_, err = provider.Up(ctx)
	}
	if err != nil {
		return errors.Join(ctx.Err(), err) // a transaction that ctx has ended says only that it is over
	}
	return nil
}

// makeSchema makes the schema of an empty database, which counts as migrated.
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

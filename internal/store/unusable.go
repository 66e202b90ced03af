package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
)

// useAnother ends the advice about a file that cannot be used. It does not know which flag named it.
const useAnother = "use another directory or database"

// errForeign is the error of a SQLite file with tables that are not Coppice's.
var errForeign = errors.New("it is the database of another program; " + useAnother)

// countTables counts the tables of a database, and those in which Coppice keeps which installation
// it is. It leaves out the table of migrations: it is the first to be created, and a process may
// have been killed then.
const countTables = `SELECT count(*), count(*) FILTER (WHERE name = 'meta' AND EXISTS
	(SELECT 1 FROM pragma_table_info('meta') WHERE name = 'installation'))
	FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name <> 'goose_db_version'`

// refuseForeign returns errForeign for another program's database. It only reads, so that such a
// database stays as it is.
func refuseForeign(ctx context.Context, reads *sql.DB) error {
	var tables, ours int
	if err := reads.QueryRowContext(ctx, countTables).Scan(&tables, &ours); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	if tables > 0 && ours == 0 {
		return errForeign
	}
	return nil
}

// explainFile says what to do about a file that SQLite cannot read. It returns other errors
// unchanged.
func explainFile(err error) error {
	var refused *driver.Error
	if !errors.As(err, &refused) {
		return err
	}
	switch refused.Code() & 0xff { // the rest says more about some errors
	case codes.SQLITE_NOTADB:
		return fmt.Errorf("the file is not a SQLite database; "+useAnother+": %w", err)
	case codes.SQLITE_CORRUPT:
		return fmt.Errorf("the file is damaged; restore a copy of it, or "+useAnother+": %w", err)
	}
	return err
}

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// load uses a transaction, unless there is only one query.
func (db *sqlite) load(ctx context.Context, lookups ...lookup) (err error) {
	queries, err := db.prepareReads(ctx, lookups)
	if err != nil {
		return err
	}
	if len(lookups) > 1 {
		tx, err := db.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return fmt.Errorf("beginning to read: %w", err)
		}
		defer func() {
			if err != nil && ctx.Err() != nil {
				err = errors.Join(ctx.Err(), err) // the end of ctx ends the transaction
			}
			if ended := tx.Rollback(); ended != nil && !errors.Is(ended, sql.ErrTxDone) {
				err = errors.Join(err, ended)
			}
		}()
		for i, query := range queries {
			if query != nil {
				queries[i] = tx.StmtContext(ctx, query)
			}
		}
	}
	asked := false
	for i, l := range lookups {
		if len(l.keys) == 0 {
			continue
		}
		if err := db.runLookup(ctx, queries[i], l); err != nil {
			return fmt.Errorf("%s: %w", l.name, explainFile(err))
		}
		asked = true
	}
	if asked {
		err = db.awaitSync()
	}
	return err
}

// loadCoalesced is load: a read takes no round trip.
func (db *sqlite) loadCoalesced(ctx context.Context, lookups ...lookup) error {
	return db.load(ctx, lookups...)
}

// runLookup runs a prepared query for each key, or once for all keys if it takes them as JSON.
func (db *sqlite) runLookup(ctx context.Context, stmt *sql.Stmt, l lookup) error {
	keys := l.keys
	if strings.Contains(db.texts[l.name], "json_each(?1)") {
		text, err := json.Marshal(keys)
		if err != nil {
			return err
		}
		keys = [][]any{{string(text)}}
	}
	for _, key := range keys {
		if err := values(key); err != nil {
			return err
		}
		rows, err := stmt.QueryContext(ctx, key...)
		if err == nil {
			err = eachSQLRow(rows, l.scan)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func eachSQLRow(rows *sql.Rows, scan func(row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// prepareReads gives the prepared query of each lookup; nil for one without keys. They are prepared
// at their first use, because to prepare all of them takes a quarter of a start. Who calls it must
// have no connection of the pool: it may need one.
func (db *sqlite) prepareReads(ctx context.Context, lookups []lookup) ([]*sql.Stmt, error) {
	db.preparing.Lock()
	defer db.preparing.Unlock()
	queries := make([]*sql.Stmt, len(lookups))
	for i, l := range lookups {
		if len(l.keys) == 0 {
			continue
		}
		if db.reading[l.name] == nil {
			query, err := db.reads.PrepareContext(ctx, unnumbered(db.texts[l.name]))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, explainFile(err))
			}
			db.reading[l.name] = query
		}
		queries[i] = db.reading[l.name]
	}
	return queries, nil
}

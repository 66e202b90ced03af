package store

import (
	"context"
	"fmt"
)

// LimitPages makes the disk full for the writer when the database has so many
// pages.
func (s *Store) LimitPages(ctx context.Context, pages int) error {
	return s.write(ctx, func(ctx context.Context, b *batch) error {
		_, err := b.tx.(packing).transaction.(sqliteWriter).conn.ExecContext(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		return err
	})
}

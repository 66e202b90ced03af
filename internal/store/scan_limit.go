package store

import "context"

// A client may ask for what is long to read, and many may at once. One look is therefore at
// maxScanRows rows at most if few of them may be what is looked for, and only so many looks are
// under way at once that others find connections: those of this replica's own steps, and
// glances.
const maxScanRows = 5000

// maxConcurrentScans is half of the connections that read, unless there are others by configuration.
const maxConcurrentScans = maxReadConns / 2

// scanLimiter is a reader for what clients may make long. It waits while as many as may read.
type scanLimiter struct {
	database
	running chan struct{} // holds one for each that reads
}

func newScanLimiter(db database) scanLimiter {
	return scanLimiter{db, make(chan struct{}, maxConcurrentScans)}
}

func (s scanLimiter) load(ctx context.Context, lookups ...lookup) error {
	select {
	case s.running <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.running }()
	return s.database.load(ctx, lookups...)
}

// scannedRow is a row that was scannedRow at.
type scannedRow[T any] struct {
	row     T
	matches bool
	nth     int // of those that were looked at
}

// scan gives a page of the rows of a query that match, of those that it looks at, and the last
// one that it has looked at; nil if there are no more.
func scan[T any](ctx context.Context, r reader, name string, columns func(*T) []any, size, look int, args ...any) (page []T, last *T, err error) {
	found, err := query(ctx, r, name, func(l *scannedRow[T]) []any {
		return append(columns(&l.row), &l.matches, &l.nth)
	}, args...)
	for i := range found {
		if found[i].matches {
			page = append(page, found[i].row)
		}
	}
	if n := len(found); n > 0 && (n == size || found[n-1].nth == look) {
		last = &found[n-1].row
	}
	return page, last, err
}

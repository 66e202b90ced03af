package store

import "context"

// A client may ask for reads that are long, and many clients may do so at once. So one read scans
// at most maxScanRows rows if few of them may match, and only maxConcurrentScans reads run at once,
// so that connections are left for this replica's own steps and for coalesced reads.
const maxScanRows = 5000

// maxConcurrentScans is half of the read connections: of PostgreSQL's default number, and of the least
// that SQLite has. If a URL asks for fewer connections, it is half of those.
const maxConcurrentScans = maxReadConns / 2

// scanLimiter is a reader for reads that clients can make long. A read waits while too many others
// run.
type scanLimiter struct {
	database
	running chan struct{} // holds one entry per read
}

func newScanLimiter(db database) scanLimiter {
	return scanLimiter{db, make(chan struct{}, min(maxConcurrentScans, max(1, db.readConns()/2)))}
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

// scannedRow is a row that was scanned.
type scannedRow[T any] struct {
	row     T
	matches bool
	nth     int // among the scanned rows
}

// scan returns a page of the matching rows among those that it scans, and the last row that it
// scanned; nil if there are no more.
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

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
)

const (
	// logCheckpointPages is the length of the write-ahead log, in pages, at which SQLite moves it
	// to the database. After that it overwrites the log from the start.
	logCheckpointPages = 8000
	// fullLogBytes is about the length that the file then has: each page has a header.
	fullLogBytes = logCheckpointPages * (4096 + 24)
	// A log that has grown is doubled, within these limits. A commit that is followed by the
	// largest step is answered 0.3 ms later.
	minLogStep = 64 << 10
	maxLogStep = 1 << 20
)

var zeros [minLogStep]byte

// growingLog is the write-ahead log of a SQLite file until it has reached its full length. The sync
// of a commit that makes the file longer takes about 1.6 times as long as that of one that overwrites
// it, because it also has to store the new length. So when a commit has made the log longer, zeros
// are appended, into which the next commits write.
//
// SQLite does not mind: it expects older pages behind the newest one, and their headers tell it
// which they are. As zeros are only ever appended, they overwrite nothing.
type growingLog struct {
	file   *os.File
	full   bool  // it need not be lengthened any more
	length int64 // with the zeros that were appended last
	logger *slog.Logger
	sync   func() error // makes durable what SQLite has written to the log
}

// openGrowingLog opens the log of a database that SQLite has opened.
func openGrowingLog(database string, logger *slog.Logger) (*growingLog, error) {
	file, err := os.OpenFile(database+"-wal", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	return &growingLog{file: file, logger: logger, sync: func() error { return syncData(file) }}, nil
}

// committed appends zeros if the commit before has made the log longer. If that is impossible, the
// log only stays slower.
func (l *growingLog) committed() {
	if l.full {
		return
	}
	full, err := l.lengthen()
	if err != nil {
		l.logger.Warn("the log of the database cannot be lengthened in advance; commits are slower until it has its full length", "error", err)
	}
	l.full = full || err != nil
}

func (l *growingLog) lengthen() (full bool, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return false, fmt.Errorf("reading its length: %w", err)
	}
	length := info.Size()
	full = length >= fullLogBytes
	if full || length <= l.length {
		return full, nil
	}
	l.length = length
	for end := length + min(max(length, minLogStep), maxLogStep); l.length < end; l.length += minLogStep {
		if _, err := l.file.Write(zeros[:]); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (l *growingLog) close() error { return l.file.Close() }

// commit commits a transaction and makes it durable. What is read meanwhile waits for that.
func (db sqliteWriter) commit(ctx context.Context, stored func()) error {
	if db.syncs {
		db.syncing.Lock()
		defer db.syncing.Unlock()
	}
	if err := db.run(ctx, "commit", nil); err != nil {
		return err
	}
	stored()
	if db.syncs && db.wrote {
		if err := db.wal.sync(); err != nil {
			db.broken = fmt.Errorf("%w: %w: %w", ErrUnavailable, errNotSynced, err)
			return db.broken
		}
	}
	db.wal.committed()
	return nil
}

// errNotSynced says that the operating system could not store the log. No later sync would tell what
// it did store.
var errNotSynced = errors.New("the log of the database could not be synced, so it is unknown what is durable")

// awaitSync waits until all that was read is durable.
func (db *sqlite) awaitSync() error {
	if !db.syncs {
		return nil
	}
	db.syncing.RLock()
	defer db.syncing.RUnlock()
	return db.broken
}

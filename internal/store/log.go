package store

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// A row of a log holds one event or, while all who may read it can, some that were
// committed together. It stands under the number of its last event.

// A row holds at most eventsInRow events. Those of one that holds several have at most
// logRowBytes: with more, SQLite would have it spill over onto a page of its own.
const (
	eventsInRow = 32
	logRowBytes = 960
)

// severalEvents is what a row of several events begins with. No event in protobuf does.
const severalEvents = 0

// logRow is a row of a log.
type logRow struct {
	last int64
	data []byte
}

func logRowOf(r *logRow) []any { return []any{&r.last, &r.data} }

var errLogRow = errors.New("a row of a log is cut off")

// after appends the events of a row after a number, as wire.EncodeEvent gave them.
func (r *logRow) after(seq int64, events [][]byte) ([][]byte, error) {
	if len(r.data) == 0 || r.data[0] != severalEvents {
		return append(events, r.data), nil
	}
	before := len(events)
	for rest := r.data[1:]; len(rest) > 0; {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(len(rest)-n) {
			return nil, errLogRow
		}
		end := n + int(size)
		events = append(events, rest[n:end:end])
		rest = rest[end:]
	}
	there := len(events) - before
	seen := int64(there) - (r.last - seq)
	return slices.Delete(events, before, before+int(min(max(seen, 0), int64(there)))), nil
}

// together puts the events of rows that hold one each into rows that hold several.
func together(rows [][]any) [][]any {
	var joined [][]any
	for len(rows) > 0 {
		n := alike(rows)
		joined = append(joined, join(rows[:n]))
		rows = rows[n:]
	}
	return joined
}

// alike is how many of the first rows may be one.
func alike(rows [][]any) (n int) {
	session := *rows[0][0].(id16).id
	size := 1
	for n < min(len(rows), eventsInRow) && *rows[n][0].(id16).id == session {
		if size += len(rows[n][2].([]byte)) + binary.MaxVarintLen16; size > logRowBytes {
			break
		}
		n++
	}
	return max(n, 1)
}

func join(rows [][]any) []any {
	last := rows[len(rows)-1]
	if len(rows) == 1 {
		return last
	}
	size := 1
	for _, row := range rows {
		size += binary.MaxVarintLen16 + len(row[2].([]byte))
	}
	data := append(make([]byte, 0, size), severalEvents)
	for _, row := range rows {
		event := row[2].([]byte)
		data = append(binary.AppendUvarint(data, uint64(len(event))), event...)
	}
	return []any{last[0], last[1], data}
}

// logAfter looks for the rows that have up to limit events after a number.
func logAfter(rows *[]logRow, session *tree.SessionID, after int64, limit int) lookup {
	before := int64(noLimit)
	if int64(limit) < before-after-eventsInRow {
		before = after + int64(limit) + eventsInRow
	}
	return all(rows, "events", logRowOf, idColumn(session), after, before)
}

// Log reads up to limit events after a number, as wire.EncodeEvent gave them.
func (s *Store) Log(ctx context.Context, session tree.SessionID, after int64, limit int) ([][]byte, error) {
	var rows []logRow
	if err := s.db.load(ctx, logAfter(&rows, &session, after, limit)); err != nil {
		return nil, err
	}
	events, err := eventsOf(rows, after)
	return events[:min(limit, len(events))], err
}

// eventsOf gives the events of rows after a number.
func eventsOf(rows []logRow, after int64) (events [][]byte, err error) {
	for i := range rows {
		if events, err = rows[i].after(after, events); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// Events is Log with the events decoded.
func (s *Store) Events(ctx context.Context, session tree.SessionID, after int64, limit int) ([]*pb.Event, error) {
	rows, err := s.Log(ctx, session, after, limit)
	if err != nil {
		return nil, err
	}
	events := make([]*pb.Event, len(rows))
	for i, data := range rows {
		if events[i], err = wire.DecodeEvent(data); err != nil {
			return nil, err
		}
	}
	return events, nil
}

package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/s2"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// A row of a log holds one event or, if all replicas can read that, several events that were
// committed together. Its seq is the number of its last event.

// A row holds at most eventsInRow events. A row with several events has at most logRowBytes when
// packed (a longer row would spill to an overflow page in SQLite), and at most logRowUnpacked
// unpacked.
const (
	eventsInRow    = 32
	logRowBytes    = 960
	logRowUnpacked = 4 << 10
)

// The first byte of a row with several events. No event in protobuf begins with it.
const (
	severalEvents = iota // each event is preceded by its length
	packedEvents         // the same, as an S2 block
)

// logRow is a row of a log.
type logRow struct {
	last int64
	data []byte
}

func logRowOf(r *logRow) []any { return []any{&r.last, &r.data} }

var errLogRow = errors.New("a row of a log is cut off")

// after appends the events of a row that come after a number, encoded as wire.EncodeEvent does.
func (r *logRow) after(seq int64, events [][]byte) ([][]byte, error) {
	rest, several, err := r.unpacked()
	if err != nil {
		return nil, err
	}
	if !several {
		return append(events, r.data), nil
	}
	before := len(events)
	for len(rest) > 0 {
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

// unpacked gives the events of a row with several, each preceded by its length.
func (r *logRow) unpacked() (events []byte, several bool, err error) {
	if len(r.data) == 0 {
		return nil, false, nil
	}
	switch r.data[0] {
	case severalEvents:
		return r.data[1:], true, nil
	case packedEvents:
		block := r.data[1:]
		if size, err := s2.DecodedLen(block); err != nil || size > logRowUnpacked {
			return nil, true, errLogRow
		}
		if events, err = s2.Decode(nil, block); err != nil {
			return nil, true, errLogRow
		}
		return events, true, nil
	}
	return nil, false, nil
}

// rowJoiner joins rows of a log. It holds the buffers for that.
type rowJoiner struct{ plain, packed []byte }

// joinAll joins rows with one event each into rows with several.
func (s *rowJoiner) joinAll(rows [][]any) [][]any {
	var joined [][]any
	for len(rows) > 0 {
		row, n := s.joinFirst(rows)
		joined = append(joined, row)
		rows = rows[n:]
	}
	return joined
}

// joinableRows is how many of the first rows may be joined.
func joinableRows(rows [][]any) (n int) {
	session := *rows[0][0].(id16).id
	size := 0
	for n < min(len(rows), eventsInRow) && *rows[n][0].(id16).id == session {
		if size += len(rows[n][2].([]byte)) + binary.MaxVarintLen16; size > logRowUnpacked {
			break
		}
		n++
	}
	return max(n, 1)
}

// joinFirst makes one row of as many of the first rows as fit.
func (s *rowJoiner) joinFirst(rows [][]any) (row []any, n int) {
	for n = joinableRows(rows); n > 1; {
		data := s.join(rows[:n])
		if len(data) <= logRowBytes {
			return []any{rows[n-1][0], rows[n-1][1], bytes.Clone(data)}, n
		}
		n = min(n-1, n*logRowBytes/len(data)) // about as many as would have gone in
	}
	return rows[0], 1
}

// join gives the data of a row with several events. It is valid until the next call.
func (s *rowJoiner) join(rows [][]any) []byte {
	s.plain = append(s.plain[:0], severalEvents)
	for _, row := range rows {
		event := row[2].([]byte)
		s.plain = append(binary.AppendUvarint(s.plain, uint64(len(event))), event...)
	}
	events := s.plain[1:]
	s.packed = slices.Grow(s.packed[:0], 1+s2.MaxEncodedLen(len(events)))
	s.packed = append(s.packed, packedEvents)
	block := s2.Encode(s.packed[1:cap(s.packed)], events)
	if len(block) >= len(events) {
		return s.plain
	}
	return s.packed[:1+len(block)]
}

// logAfter looks up the rows that contain up to limit events after a number.
func logAfter(rows *[]logRow, session *tree.SessionID, after int64, limit int) lookup {
	before := int64(noLimit)
	if int64(limit) < before-after-eventsInRow {
		before = after + int64(limit) + eventsInRow
	}
	return all(rows, "events", logRowOf, idColumn(session), after, before)
}

// Log reads up to limit events after a number, encoded as wire.EncodeEvent does.
func (s *Store) Log(ctx context.Context, session tree.SessionID, after int64, limit int) ([][]byte, error) {
	var rows []logRow
	if err := s.db.load(ctx, logAfter(&rows, &session, after, limit)); err != nil {
		return nil, err
	}
	events, err := eventsOf(rows, after)
	return events[:min(limit, len(events))], err
}

// eventsOf gives the events of rows that come after a number.
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

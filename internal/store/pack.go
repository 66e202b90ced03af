package store

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Most stored data are the results of calls, which are text. Large results and messages are
// compressed ("packed") when they are written, and unpacked when they are read. The rest of the
// program does not notice.

// Results and messages of at least packFrom bytes are packed. Smaller ones share a page with other
// rows and would gain little. Texts longer than maxPacked are not packed, so no packed text unpacks
// to more.
const (
	packFrom  = 1 << 10
	maxPacked = 16 << 20
)

// packWindow is how far back the compression looks for repetitions. Each encoder uses as much
// memory.
const packWindow = 256 << 10

// currentRowForm is the newest form of rows that this release reads and writes. In form 0 nothing
// is packed. In form 1 each event has a row of its own. In form 2 events are not packed and zeros
// are not NULL. In form 3 each ended run has a row, and no packed text is in two pieces. In form 4
// the row of a task says who has claimed its run, and the row of a call that its child has ended. In
// form 5 each ready run has a row of ready.
const currentRowForm = 6

// packedBody is the first byte of a packed body. No protobuf message begins with it.
const packedBody = 0

// packedText stands in the text column of a packed text, for readers of that column alone.
const packedText = "(packed)"

// PostgreSQL cuts values that are too long for a row into chunks of toastChunk bytes. Four chunks
// fill a page, and there is hardly ever room for the last one, which is shorter. So the first bytes
// of a packed text, up to maxInlineBytes, go to the text column instead of packedText, and the rest
// is whole chunks.
const (
	toastChunk     = 1996
	maxInlineBytes = 1400 // longer rows would use pages no better than a last chunk of that length
)

// codec packs and unpacks. It is safe for concurrent use.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// zstandard is the only codec, made at its first use.
var zstandard = sync.OnceValue(func() codec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(packWindow))
	if err != nil {
		panic(fmt.Sprintf("store: %v", err)) // only invalid options fail
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPacked))
	if err != nil {
		panic(fmt.Sprintf("store: %v", err))
	}
	return codec{encoder, decoder}
})

// pack appends the packed data to a prefix; nil if packing gains too little.
func pack(data []byte, prefix ...byte) []byte {
	if len(data) < packFrom || len(data) > maxPacked {
		return nil
	}
	packed := zstandard().encoder.EncodeAll(data, append(make([]byte, 0, len(data)), prefix...))
	if len(packed) > len(data)/8*7 {
		return nil
	}
	return packed
}

func unpack(packed []byte) ([]byte, error) {
	data, err := zstandard().decoder.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	return data, nil
}

// bodyColumn is the body of a message, which may be packed.
type bodyColumn struct{ body *[]byte }

// Value gives the body unpacked.
func (c bodyColumn) Value() (driver.Value, error) {
	if *c.body == nil {
		return nil, nil
	}
	return *c.body, nil
}

// Scan unpacks the body.
func (c bodyColumn) Scan(src any) (err error) {
	switch src := src.(type) {
	case nil:
		*c.body = nil
	case []byte:
		if len(src) > 0 && src[0] == packedBody {
			*c.body, err = unpack(src[1:])
			return err
		}
		*c.body = bytes.Clone(src)
	default:
		return fmt.Errorf("a body is %T", src)
	}
	return nil
}

// packedColumn is the packed text of a call; NULL if the text column has the text. It is scanned
// after the text column, which may hold its beginning.
type packedColumn struct{ text *string }

// Value gives NULL: the text is not packed.
func (packedColumn) Value() (driver.Value, error) { return nil, nil }

// Scan unpacks the text.
func (c packedColumn) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		return nil
	case []byte:
		if *c.text != packedText {
			src = append([]byte(*c.text), src...)
		}
		text, err := unpack(src)
		*c.text = string(text)
		return err
	}
	return fmt.Errorf("a packed text is %T", src)
}

// mayPack reports whether rows may be packed. A replica of the previous release could not read
// them, so nothing is packed while one is known; it is known for an hour after its last heartbeat.
func (s *Store) mayPack() bool { return s.Exclusive() || s.allReadPacked.Load() }

// packingWriter packs what is written, if all replicas can read it.
type packingWriter struct {
	writer
	readable func() bool
	layout
	events *rowJoiner
}

// layout is how rows of the newest form are laid out in a database.
type layout struct {
	nullWhenZero map[string][]int // by statement: the arguments that are NULL when they are zero
	chunk        int              // long values are stored in chunks of so many bytes; 0: they are not
}

func (w packingWriter) transact(ctx context.Context, work func(transaction) error, stored func()) error {
	return w.writer.transact(ctx, func(tx transaction) error {
		if w.readable() {
			tx = packing{tx, w.layout, w.events}
		}
		return work(tx)
	}, stored)
}

// packing is a transaction that packs.
type packing struct {
	transaction
	layout
	events *rowJoiner
}

func (tx packing) save(ctx context.Context, name string, rows ...[]any) error {
	nullZeros(rows, tx.nullWhenZero[name])
	switch name {
	case "add_messages":
		packBodies(rows)
	case "add_calls", "put_calls":
		tx.packTexts(rows)
	case "add_events":
		rows = tx.events.joinAll(rows)
	}
	return tx.transaction.save(ctx, name, rows...)
}

// nullZeros replaces zeros by NULL in some columns of rows.
func nullZeros(rows [][]any, columns []int) {
	for _, row := range rows {
		for _, i := range columns {
			if isZero(row[i]) {
				row[i] = nil
			}
		}
	}
}

// isZero reports whether a column is the number zero. It ignores column types that write zero as
// NULL themselves.
func isZero(column any) bool {
	switch c := column.(type) {
	case *int:
		return *c == 0
	case *int64:
		return *c == 0
	case bitsColumn:
		return *c.bits == 0
	case durationColumn:
		return *c.duration == 0
	}
	v := reflect.ValueOf(column)
	return v.Kind() == reflect.Pointer && v.Elem().IsZero()
}

func packBodies(rows [][]any) {
	for _, row := range rows {
		for i, arg := range row {
			column, ok := arg.(bodyColumn)
			if !ok {
				continue
			}
			if packed := pack(*column.body, packedBody); packed != nil {
				row[i] = packed
			}
		}
	}
}

func (l *layout) packTexts(rows [][]any) {
	for _, row := range rows {
		for i, arg := range row {
			column, ok := arg.(packedColumn)
			if !ok {
				continue
			}
			if packed := pack([]byte(*column.text)); packed != nil {
				row[slices.Index(row, any(column.text))], row[i] = l.splitPacked(packed)
			}
		}
	}
}

// splitPacked gives the value of the text column and that of the packed column.
func (l *layout) splitPacked(packed []byte) (text any, rest []byte) {
	if l.chunk > 0 && len(packed) > l.chunk {
		if first := len(packed) % l.chunk; first > 0 && first <= maxInlineBytes {
			return packed[:first], packed[first:]
		}
	}
	return packedText, packed
}

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

// Most of what is stored are the results of calls, which are text. What is large of
// them, and of messages, is packed on its way into the database and unpacked on its
// way out; nobody beyond this file knows.

// Results and messages of at least packFrom bytes are packed: smaller ones fit on a
// page with others as they are, and would gain little. What is longer than maxPacked
// stays as it is, so nothing that was packed unpacks to more.
const (
	packFrom  = 1 << 10
	maxPacked = 16 << 20
)

// packWindow is how far back a text is compared with itself. Each of the encoders holds as
// much memory.
const packWindow = 256 << 10

// currentRowForm is the form of rows that this release reads. Form 0 has nothing packed, in
// form 1 each event has a row of its own, in form 2 events are not packed and nothing
// is NULL instead of a zero, and in form 3 each run that has ended has a row and no packed
// text is in two pieces.
const currentRowForm = 4

// packedBody is what a packed body begins with. No message in protobuf does.
const packedBody = 0

// packedText stands for a text that is packed, for those who look only there.
const packedText = "(packed)"

// PostgreSQL cuts what is too long for a row into chunks of toastChunk bytes, of which four fill
// a page, and hardly ever finds a place for the last one, which is shorter. So the first bytes of
// a packed text, up to maxInlineBytes, are put in the place of packedText, and the others are whole chunks.
const (
	toastChunk     = 1996
	maxInlineBytes = 1400 // longer rows would fill pages no better than a last chunk of that length
)

// codec packs and unpacks. It is safe for concurrent use.
type codec struct {
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// zstandard is the one there is, made when it is first used.
var zstandard = sync.OnceValue(func() codec {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithAllLitEntropyCompression(true),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(packWindow))
	if err != nil {
		panic(fmt.Sprintf("store: %v", err)) // only of options that are wrong
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPacked))
	if err != nil {
		panic(fmt.Sprintf("store: %v", err))
	}
	return codec{encoder, decoder}
})

// pack appends data to a prefix, packed; nil if it should stay as it is.
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

// Value gives it as it is.
func (c bodyColumn) Value() (driver.Value, error) {
	if *c.body == nil {
		return nil, nil
	}
	return *c.body, nil
}

// Scan unpacks it.
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

// packedColumn is a text that is packed; NULL if its own column has it. It is scanned
// after that, which may have how it begins.
type packedColumn struct{ text *string }

// Value says that it is not packed.
func (packedColumn) Value() (driver.Value, error) { return nil, nil }

// Scan unpacks it.
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

// mayPack reports whether what is written may be packed: a replica of the release before
// would not read it. While one is known of, and one is for an hour after its end,
// nothing is.
func (s *Store) mayPack() bool { return s.Exclusive() || s.allReadPacked.Load() }

// packingWriter packs what is written, while all who may read it can.
type packingWriter struct {
	writer
	readable func() bool
	layout
}

// layout is how rows of the newest form are laid out in a database.
type layout struct {
	nullWhenZero map[string][]int // of each statement the arguments that are NULL instead of zero
	chunk        int              // the room for packed texts comes in pieces of so many bytes; 0: it does not
}

func (w packingWriter) transact(ctx context.Context, work func(transaction) error) error {
	return w.writer.transact(ctx, func(tx transaction) error {
		if w.readable() {
			tx = packing{tx, w.layout}
		}
		return work(tx)
	})
}

// packing is a transaction that packs.
type packing struct {
	transaction
	layout
}

func (tx packing) save(ctx context.Context, name string, rows ...[]any) error {
	nullZeros(rows, tx.nullWhenZero[name])
	switch name {
	case "add_messages":
		packBodies(rows)
	case "add_calls", "put_calls":
		tx.packTexts(rows)
	case "add_events":
		rows = joinEventRows(rows)
	}
	return tx.transaction.save(ctx, name, rows...)
}

// nullZeros puts NULL in the place of zeros in some columns of rows.
func nullZeros(rows [][]any, columns []int) {
	for _, row := range rows {
		for _, i := range columns {
			if isZero(row[i]) {
				row[i] = nil
			}
		}
	}
}

// isZero reports whether a column is the number zero. Of those that give NULL for it by
// themselves it need not know.
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

// splitPacked gives what stands for a packed text in its own column, and what is packed.
func (l *layout) splitPacked(packed []byte) (text any, rest []byte) {
	if l.chunk > 0 && len(packed) > l.chunk {
		if first := len(packed) % l.chunk; first > 0 && first <= maxInlineBytes {
			return packed[:first], packed[first:]
		}
	}
	return packedText, packed
}

package store

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// column is a column of rows as a PostgreSQL array, encoded. Allocations make large transactions
// expensive here. So columns are encoded into a buffer that is reused, and copied into room that is
// allocated once per statement.
type column struct {
	array []byte
	room  int // for all columns of the statement; set in the first column only
}

// elementTypes are the types that columns may have.
var elementTypes = map[string]uint32{
	"bytea": pgtype.ByteaOID, "bigint": pgtype.Int8OID, "text": pgtype.TextOID, "boolean": pgtype.BoolOID, "json": pgtype.JSONOID,
}

// columnCodec encodes columns itself, and leaves everything else to the wrapped codec.
type columnCodec struct{ pgtype.Codec }

// PlanEncode handles columns in the binary format, which is the one in use.
func (c columnCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(column); ok && format == pgtype.BinaryFormatCode {
		return columnPlan{}
	}
	return c.Codec.PlanEncode(m, oid, format, value)
}

type columnPlan struct{}

// The header of a one-dimensional array consists of the number of dimensions, whether there may be
// NULLs, the type of the elements, their number, and the index of the first one.
const (
	mayHaveNull = 1
	firstIndex  = 1
	arrayHeader = 5 * 4 // bytes
)

// Encode appends the array.
func (columnPlan) Encode(value any, to []byte) ([]byte, error) {
	c := value.(column)
	return append(slices.Grow(to, c.room), c.array...), nil
}

// shortElement is the size of a number with its length.
const shortElement = 12

// columnsOf encodes the columns of rows into a buffer, which must not be reused until the statement
// is sent.
func columnsOf(rows [][]any, types []string, buffer *[]byte) ([]any, error) {
	columns, begun := make([]any, len(types)), len(*buffer)
	*buffer = slices.Grow(*buffer, len(rows)*len(types)*shortElement)
	for i, t := range types {
		start := len(*buffer)
		var err error
		if *buffer, err = appendColumn(*buffer, rows, i, elementTypes[t]); err != nil {
			return nil, err
		}
		columns[i] = column{array: (*buffer)[start:]}
	}
	columns[0] = column{columns[0].(column).array, len(*buffer) - begun}
	return columns, nil
}

// appendColumn appends one column of rows of a table: pointers, or column types.
func appendColumn(to []byte, rows [][]any, i int, of uint32) (_ []byte, err error) {
	for _, n := range [...]uint32{1, mayHaveNull, of, uint32(len(rows)), firstIndex} {
		to = binary.BigEndian.AppendUint32(to, n)
	}
	for _, row := range rows {
		if to, err = appendElement(to, row[i]); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	return to, nil
}

const lengthOfNull = ^uint32(0)

// appendElement appends an element of an array, preceded by its length.
func appendElement(to []byte, arg any) ([]byte, error) {
	switch arg := arg.(type) {
	case nil:
		return appendNull(to), nil
	case *int:
		return appendInt(to, int64(*arg)), nil
	case *int64:
		return appendInt(to, *arg), nil
	case bitsColumn:
		return appendInt(to, int64(*arg.bits)), nil
	case timeColumn:
		if arg.time.IsZero() {
			return appendNull(to), nil
		}
		return appendInt(to, arg.time.UnixMicro()), nil
	case id16:
		if *arg.id == [16]byte{} {
			return appendNull(to), nil
		}
		return appendText(to, arg.id[:]), nil
	case *string:
		return appendText(to, *arg), nil
	}
	return appendOther(to, arg)
}

// appendOther appends an element of a less frequent type.
func appendOther(to []byte, arg any) ([]byte, error) {
	switch arg := arg.(type) {
	case *[]byte:
		return appendOther(to, *arg)
	case []byte:
		if arg == nil {
			return appendNull(to), nil
		}
		return appendText(to, arg), nil
	case driver.Valuer:
		value, err := arg.Value()
		if err != nil {
			return nil, err
		}
		return appendOther(to, value)
	}
	v := reflect.Indirect(reflect.ValueOf(arg))
	switch {
	case !v.IsValid():
		return appendNull(to), nil
	case v.CanInt():
		return appendInt(to, v.Int()), nil
	case v.CanUint():
		return appendInt(to, int64(v.Uint())), nil
	case v.Kind() == reflect.String:
		return appendText(to, v.String()), nil
	case v.Kind() == reflect.Bool && v.Bool():
		return append(to, 0, 0, 0, 1, 1), nil
	case v.Kind() == reflect.Bool:
		return append(to, 0, 0, 0, 1, 0), nil
	}
	return nil, fmt.Errorf("a column of %T", arg)
}

func appendNull(to []byte) []byte { return binary.BigEndian.AppendUint32(to, lengthOfNull) }

func appendInt(to []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(to, 8), uint64(n))
}

func appendText[Text string | []byte](to []byte, text Text) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(text))), text...)
}

// bufferReservation is a message that sends nothing. It gives pgx a buffer large enough for a whole
// transaction, which pgx would otherwise allocate for each and double several times.
type bufferReservation struct {
	kept  *[]byte // reused by the next transaction
	bytes int
}

// Frontend marks a message of the client.
func (bufferReservation) Frontend() {}

// Decode is never called.
func (bufferReservation) Decode([]byte) error { return errors.ErrUnsupported }

// Encode copies what is not sent yet into the larger buffer, and appends nothing.
func (s bufferReservation) Encode(unsent []byte) ([]byte, error) {
	*s.kept = slices.Grow((*s.kept)[:0], len(unsent)+s.bytes)
	return append(*s.kept, unsent...), nil
}

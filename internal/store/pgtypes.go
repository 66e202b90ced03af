package store

import (
	"github.com/jackc/pgx/v5/pgtype"
)

// column is a column of rows as an array of PostgreSQL's.
type column struct {
	rows [][]any
	i    int
	zero any
}

// Dimensions says how long it is.
func (c column) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(c.rows)), LowerBound: 1}}
}

// Index gives an element.
func (c column) Index(n int) any { return c.rows[n][c.i] }

// IndexType gives a value of the type that all have.
func (c column) IndexType() any { return c.zero }

// zeroOf gives a value of a column's type.
func zeroOf(columnType string) any {
	switch columnType {
	case "bytea":
		return []byte{}
	case "boolean":
		return false
	case "text":
		return ""
	}
	return int64(0)
}

// bytesCodec reads and writes bytes as strings too: a Go string holds any bytes,
// and PostgreSQL's TEXT does not.
type bytesCodec struct{ pgtype.ByteaCodec }

func registerBytes(types *pgtype.Map) {
	bytes := &pgtype.Type{Name: "bytea", OID: pgtype.ByteaOID, Codec: bytesCodec{}}
	types.RegisterType(bytes)
	types.RegisterType(&pgtype.Type{
		Name: "_bytea", OID: pgtype.ByteaArrayOID, Codec: &pgtype.ArrayCodec{ElementType: bytes},
	})
}

// PlanEncode takes strings in the binary format, which is the one in use.
func (c bytesCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case string, words:
			return stringAsBytes{}
		}
	}
	return c.ByteaCodec.PlanEncode(m, oid, format, value)
}

// PlanScan gives strings in the binary format, which is the one in use.
func (c bytesCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*string); ok && format == pgtype.BinaryFormatCode {
		return stringAsBytes{}
	}
	return c.ByteaCodec.PlanScan(m, oid, format, target)
}

type stringAsBytes struct{}

// Encode appends the bytes.
func (stringAsBytes) Encode(value any, to []byte) ([]byte, error) {
	if w, ok := value.(words); ok {
		return append(to, w...), nil
	}
	return append(to, value.(string)...), nil
}

// Scan takes the bytes.
func (stringAsBytes) Scan(from []byte, target any) error {
	*target.(*string) = string(from)
	return nil
}

// words is a string as an argument of its own, which pgx would send as text, whatever
// the server takes it for.
type words string

// asWords does that to the strings of a row.
func asWords(row []any) {
	for i, arg := range row {
		if s, ok := arg.(string); ok {
			row[i] = words(s)
		}
	}
}

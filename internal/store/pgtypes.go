package store

import (
	"reflect"

	"github.com/jackc/pgx/v5/pgtype"
)

// bytesCodec also reads and writes strings as bytes: a Go string may hold any bytes, and
// PostgreSQL's TEXT may not.
type bytesCodec struct{ pgtype.ByteaCodec }

// registerTypes makes a connection accept our columns, and strings for bytes.
func registerTypes(types *pgtype.Map) {
	bytes := &pgtype.Type{Name: "bytea", OID: pgtype.ByteaOID, Codec: bytesCodec{}}
	types.RegisterType(bytes)
	types.RegisterType(&pgtype.Type{Name: "int8", OID: pgtype.Int8OID, Codec: numberCodec{}})
	types.RegisterType(&pgtype.Type{
		Name: "_bytea", OID: pgtype.ByteaArrayOID, Codec: &pgtype.ArrayCodec{ElementType: bytes},
	})
	for _, oid := range []uint32{pgtype.ByteaArrayOID, pgtype.Int8ArrayOID, pgtype.TextArrayOID, pgtype.BoolArrayOID, pgtype.JSONArrayOID} {
		known, _ := types.TypeForOID(oid) // all of them are built in
		types.RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: columnCodec{known.Codec}})
	}
}

// PlanEncode handles strings in the binary format, which is the one in use.
func (c bytesCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case string, textArgument:
			return stringAsBytes{}
		}
	}
	return c.ByteaCodec.PlanEncode(m, oid, format, value)
}

// PlanScan handles strings in the binary format, which is the one in use.
func (c bytesCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*string); ok && format == pgtype.BinaryFormatCode {
		return stringAsBytes{}
	}
	return c.ByteaCodec.PlanScan(m, oid, format, target)
}

// numberCodec reads NULL as zero: nullable columns store zero as NULL.
type numberCodec struct{ pgtype.Int8Codec }

// PlanScan handles integers, and leaves everything else to the wrapped codec.
func (c numberCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	plan := c.Int8Codec.PlanScan(m, oid, format, target)
	if v := reflect.ValueOf(target); plan == nil || v.Kind() != reflect.Pointer || !v.Elem().CanInt() && !v.Elem().CanUint() {
		return plan
	}
	return orZero{plan}
}

type orZero struct{ pgtype.ScanPlan }

// Scan reads the number.
func (p orZero) Scan(from []byte, target any) error {
	if from == nil {
		reflect.ValueOf(target).Elem().SetZero()
		return nil
	}
	return p.ScanPlan.Scan(from, target)
}

type stringAsBytes struct{}

// Encode appends the bytes.
func (stringAsBytes) Encode(value any, to []byte) ([]byte, error) {
	if w, ok := value.(textArgument); ok {
		return append(to, w...), nil
	}
	return append(to, value.(string)...), nil
}

// Scan reads the bytes.
func (stringAsBytes) Scan(from []byte, target any) error {
	*target.(*string) = string(from)
	return nil
}

// textArgument is a string as a single argument. pgx would send a string as text, whatever type the
// server expects.
type textArgument string

// asTextArguments converts the strings of a row.
func asTextArguments(row []any) {
	for i, arg := range row {
		if s, ok := arg.(string); ok {
			row[i] = textArgument(s)
		}
	}
}

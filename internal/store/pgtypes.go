package store

import (
	"reflect"

	"github.com/jackc/pgx/v5/pgtype"
)

// bytesCodec reads and writes bytes as strings too: a Go string holds any bytes,
// and PostgreSQL's TEXT does not.
type bytesCodec struct{ pgtype.ByteaCodec }

// registerTypes makes a connection write columns of ours, and bytes as strings.
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

// PlanEncode takes strings in the binary format, which is the one in use.
func (c bytesCodec) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case string, textArgument:
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

// numberCodec reads NULL as zero, as which it is stored in sparse columns.
type numberCodec struct{ pgtype.Int8Codec }

// PlanScan takes whole numbers, and whatever else the codec takes.
func (c numberCodec) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	plan := c.Int8Codec.PlanScan(m, oid, format, target)
	if v := reflect.ValueOf(target); plan == nil || v.Kind() != reflect.Pointer || !v.Elem().CanInt() && !v.Elem().CanUint() {
		return plan
	}
	return orZero{plan}
}

type orZero struct{ pgtype.ScanPlan }

// Scan takes the number.
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

// Scan takes the bytes.
func (stringAsBytes) Scan(from []byte, target any) error {
	*target.(*string) = string(from)
	return nil
}

// textArgument is a string as an argument of its own, which pgx would send as text, whatever
// the server takes it for.
type textArgument string

// asTextArguments does that to the strings of a row.
func asTextArguments(row []any) {
	for i, arg := range row {
		if s, ok := arg.(string); ok {
			row[i] = textArgument(s)
		}
	}
}

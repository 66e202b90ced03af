package store

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// update is a statement that writes some columns of an existing row: those that may change, up to
// an end. Most of PostgreSQL's work for a row is work for its columns.
type update struct {
	name string
	end  int
}

// updateStatement gives the narrowest statement that changes a row from was to now, with its
// arguments, which are a copy.
func (t table) updateStatement(was, now []any) (statement string, arguments []any) {
	last := len(now)
	for last > t.fixed && sameValue(was[last-1], now[last-1]) {
		last--
	}
	for _, u := range t.updates {
		if last <= u.end {
			return u.name, slices.Concat(now[:t.keys], now[t.fixed:u.end])
		}
	}
	return "put_" + t.name, slices.Clone(now)
}

// sameValue reports whether two columns have the same value. Both are of the same type: a column
// type or a pointer.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case *int:
		return *a == *b.(*int)
	case *int64:
		return *a == *b.(*int64)
	case *string:
		return *a == *b.(*string)
	case *bool:
		return *a == *b.(*bool)
	case id16:
		return *a.id == *b.(id16).id
	case timeColumn:
		return a.time.Equal(*b.(timeColumn).time)
	case durationColumn:
		return *a.duration == *b.(durationColumn).duration
	case bitsColumn:
		return *a.bits == *b.(bitsColumn).bits
	}
	if v := reflect.ValueOf(a); v.Kind() == reflect.Pointer && v.Elem().Comparable() {
		return v.Elem().Equal(reflect.ValueOf(b).Elem())
	}
	return reflect.DeepEqual(a, b)
}

// updateSQL is the text of an update. Its arguments are numbered after a prefix and come from a
// FROM clause, if there is one.
func (t table) updateSQL(u update, prefix, from, where string) string {
	set := make([]string, 0, u.end-t.fixed)
	for i, c := range t.columns[t.fixed:u.end] {
		set = append(set, fmt.Sprintf("%s = %s%d", c, prefix, t.keys+i+1))
	}
	return fmt.Sprintf("UPDATE %s SET %s %s WHERE %s", t.name, strings.Join(set, ", "), from, where)
}

// keyPredicate compares the key of a row with arguments that are numbered after a prefix.
func (t table) keyPredicate(prefix string) string {
	return fmt.Sprintf("(%s) = (%s)", strings.Join(t.columns[:t.keys], ", "), placeholders(prefix, t.keys))
}

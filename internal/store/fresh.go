package store

import (
	"fmt"
	"slices"
	"strings"
)

// later are columns that most new rows do not have yet. A statement of its own writes a row
// without them, with constants in their place: what it costs to write a row is mostly the
// columns that are given.
type later struct {
	columns []int
	zero    []any // a whole row that has none of them
}

// notYet gives a table with a row that has nothing yet.
func (t table) notYet(zero []any) table {
	t.later.zero = zero
	return t
}

// add gives the statement that writes a new row of a table with such columns, the narrowest
// that there is for it, with its arguments, which are a copy.
func (t table) add(row []any) (statement string, arguments []any) {
	for _, i := range t.later.columns {
		if !same(row[i], t.later.zero[i]) {
			return "add_" + t.name, slices.Clone(row)
		}
	}
	return "new_" + t.name, without(t.later.columns, row)
}

// without leaves some out.
func without[T any](out []int, of []T) []T {
	kept := make([]T, 0, len(of)-len(out))
	for i, v := range of {
		if _, is := slices.BinarySearch(out, i); !is {
			kept = append(kept, v)
		}
	}
	return kept
}

// adding is the beginning of the statement for rows without the columns that come later, and
// the constants that it ends with. typed gives a constant its column's type.
func (t table) adding(typed func(constant string, column int) string) (into, constants string) {
	zero := slices.Clone(t.later.zero)
	if err := values(zero); err != nil {
		panic(fmt.Sprintf("%s: %s", t.name, err)) // they are the program's own
	}
	names := without(t.later.columns, t.columns)
	var texts []string
	for _, i := range t.later.columns {
		names = append(names, t.columns[i])
		texts = append(texts, typed(constant(zero[i]), i))
	}
	return fmt.Sprintf("INSERT INTO %s (%s)", t.name, strings.Join(names, ", ")), strings.Join(texts, ", ")
}

// constant is what stands for a value in a statement.
func constant(value any) string {
	switch v := value.(type) {
	case nil:
		return "NULL"
	case string:
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	case int64, bool:
		return fmt.Sprint(v)
	}
	panic(fmt.Sprintf("%T has no constant", value))
}

// addingOne is the statement for one such row. Its arguments have a prefix before their
// number.
func (t table) addingOne(prefix string) string {
	untyped := func(constant string, _ int) string { return constant } // its column is known
	into, constants := t.adding(untyped)
	return fmt.Sprintf("%s VALUES (%s, %s)", into, numbered(prefix, len(t.columns)-len(t.later.columns)), constants)
}

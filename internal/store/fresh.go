package store

import (
	"fmt"
	"slices"
	"strings"
)

// narrow is a statement that writes new rows without columns in which most of them have
// nothing, with constants in their place: what it costs to write a row is mostly the columns
// that are given.
type narrow struct {
	name string
	out  []int // the columns that it leaves out
}

// notYet gives a table with a row that has nothing yet. New rows may lack all columns in which
// most have nothing, or those that are not among the first that change.
func (t table) notYet(zero []any) table {
	t.zero = zero
	first, _ := slices.BinarySearch(t.unset, t.updates[0].end)
	t.narrow = []narrow{{"new_" + t.name, t.unset}, {"begun_" + t.name, t.unset[first:]}}
	return t
}

// add gives the statement that writes a new row of a table with such columns, the narrowest
// that there is for it, with its arguments, which are a copy.
func (t table) add(row []any) (statement string, arguments []any) {
	if n := t.narrowest(row); n != nil {
		return n.name, without(n.out, row)
	}
	return "add_" + t.name, slices.Clone(row)
}

// addAll gives one statement that writes all of some new rows, with its arguments.
func (t table) addAll(rows [][]any) (statement string, arguments [][]any) {
	n := t.narrowest(rows...)
	if n == nil {
		return "add_" + t.name, rows
	}
	for _, row := range rows {
		arguments = append(arguments, without(n.out, row))
	}
	return n.name, arguments
}

// narrowest gives the narrowest statement that there is for all of some rows; nil if there is
// none but the one with all columns.
func (t table) narrowest(rows ...[]any) *narrow {
	for i := range t.narrow {
		n := &t.narrow[i]
		has := func(row []any) bool {
			return slices.ContainsFunc(n.out, func(i int) bool { return !same(row[i], t.zero[i]) })
		}
		if !slices.ContainsFunc(rows, has) {
			return n
		}
	}
	return nil
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

// adding is the beginning of a statement for rows without some columns, and the constants that
// it ends with. typed gives a constant its column's type.
func (t table) adding(n narrow, typed func(constant string, column int) string) (into, constants string) {
	zero := slices.Clone(t.zero)
	if err := values(zero); err != nil {
		panic(fmt.Sprintf("%s: %s", t.name, err)) // they are the program's own
	}
	names := without(n.out, t.columns)
	var texts []string
	for _, i := range n.out {
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
func (t table) addingOne(n narrow, prefix string, typed func(constant string, column int) string) string {
	into, constants := t.adding(n, typed)
	return fmt.Sprintf("%s VALUES (%s, %s)", into, numbered(prefix, len(t.columns)-len(n.out)), constants)
}

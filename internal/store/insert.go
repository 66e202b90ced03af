package store

import (
	"fmt"
	"slices"
	"strings"
)

// narrowInsert is a statement that inserts rows without the columns that are usually empty, and has
// constants in their place. The cost of a row depends mostly on how many columns are given.
type narrowInsert struct {
	name    string
	omitted []int // the omitted columns
}

// withEmptyRow gives the table with its empty row, and with two narrow inserts: one omits all
// columns that are usually empty, the other those of them that are not in the first update.
func (t table) withEmptyRow(zero []any) table {
	t.emptyRow = zero
	first, _ := slices.BinarySearch(t.usuallyEmpty, t.updates[0].end)
	t.narrow = []narrowInsert{{"new_" + t.name, t.usuallyEmpty}, {"begun_" + t.name, t.usuallyEmpty[first:]}}
	return t
}

// insertStatement gives the narrowest statement that inserts a row, with its arguments, which are a
// copy.
func (t table) insertStatement(row []any) (statement string, arguments []any) {
	if n := t.narrowestInsert(row); n != nil {
		return n.name, exclude(n.omitted, row)
	}
	return "add_" + t.name, slices.Clone(row)
}

// insertAllStatement gives one statement that inserts all the rows, with its arguments.
func (t table) insertAllStatement(rows [][]any) (statement string, arguments [][]any) {
	n := t.narrowestInsert(rows...)
	if n == nil {
		return "add_" + t.name, rows
	}
	for _, row := range rows {
		arguments = append(arguments, exclude(n.omitted, row))
	}
	return n.name, arguments
}

// narrowestInsert gives the narrowest insert that fits all the rows; nil if that is the one with
// all columns.
func (t table) narrowestInsert(rows ...[]any) *narrowInsert {
	for i := range t.narrow {
		n := &t.narrow[i]
		has := func(row []any) bool {
			return slices.ContainsFunc(n.omitted, func(i int) bool { return !sameValue(row[i], t.emptyRow[i]) })
		}
		if !slices.ContainsFunc(rows, has) {
			return n
		}
	}
	return nil
}

// exclude leaves out the elements with some indices, which are sorted.
func exclude[T any](out []int, of []T) []T {
	kept := make([]T, 0, len(of)-len(out))
	for i, v := range of {
		if _, is := slices.BinarySearch(out, i); !is {
			kept = append(kept, v)
		}
	}
	return kept
}

// insertParts gives the beginning of a narrow insert, and the constants that end it. typed gives a
// constant the type of its column.
func (t table) insertParts(n narrowInsert, typed func(constant string, column int) string) (into, constants string) {
	zero := slices.Clone(t.emptyRow)
	if err := values(zero); err != nil {
		panic(fmt.Sprintf("%s: %s", t.name, err)) // they are the program's own
	}
	names := exclude(n.omitted, t.columns)
	var texts []string
	for _, i := range n.omitted {
		names = append(names, t.columns[i])
		texts = append(texts, typed(sqlLiteral(zero[i]), i))
	}
	return fmt.Sprintf("INSERT INTO %s (%s)", t.name, strings.Join(names, ", ")), strings.Join(texts, ", ")
}

// sqlLiteral is the text of a value in a statement.
func sqlLiteral(value any) string {
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

// insertSQL is the narrow insert of one row. Its arguments are numbered after a prefix.
func (t table) insertSQL(n narrowInsert, prefix string, typed func(constant string, column int) string) string {
	into, constants := t.insertParts(n, typed)
	return fmt.Sprintf("%s VALUES (%s, %s)", into, placeholders(prefix, len(t.columns)-len(n.omitted)), constants)
}

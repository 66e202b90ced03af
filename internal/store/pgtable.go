package store

import (
	"fmt"
	"slices"
	"strings"
)

// bulkStatements gives the statements that write many rows of a table at once, by name. Each column
// is an array of its type.
func (t table) bulkStatements(types []string) map[string]string {
	add := fmt.Sprintf("INSERT INTO %s (%s) %s", t.name, strings.Join(t.columns, ", "), unnest(types))
	texts := map[string]string{"add_" + t.name: add, "put_" + t.name: add + t.onConflict()}
	if t.drops {
		texts["drop_"+t.name] = fmt.Sprintf("DELETE FROM %s USING (%s) AS gone (%s) WHERE %s",
			t.name, unnest(types[:t.keys]), placeholders("c", t.keys), t.keyJoin("c"))
	}
	if t.columns[0] == "session" {
		texts["purge_"+t.name] = fmt.Sprintf("DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %s WHERE session = ?1 LIMIT ?2)) RETURNING 1", t.name, t.name)
	}
	for _, n := range t.narrow {
		into, constants := t.insertParts(n, t.typedConstant(types))
		texts[n.name] = fmt.Sprintf("%s %s, %s", into, unnest(exclude(n.omitted, types)), constants)
	}
	for _, u := range t.updates {
		given := slices.Concat(types[:t.keys], types[t.fixed:u.end])
		from := fmt.Sprintf("FROM (%s) AS given (%s)", unnest(given), placeholders("c", len(given)))
		texts[u.name] = t.updateSQL(u, "c", from, t.keyJoin("c"))
		if next := t.versionPredicate(u, "c", types); next != "" {
			texts[versionCheckedName(u.name)] = requireAllRows(t.updateSQL(u, "c", from, t.keyJoin("c")+" AND "+next), "cardinality(?1)")
		}
	}
	return texts
}

// singleRowStatements gives the same statements for one row.
func (t table) singleRowStatements(types []string) map[string]string {
	add := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.name, strings.Join(t.columns, ", "), placeholders("$", len(t.columns)))
	texts := map[string]string{"add_" + t.name: add, "put_" + t.name: add + t.onConflict()}
	if t.drops {
		texts["drop_"+t.name] = fmt.Sprintf("DELETE FROM %s WHERE %s", t.name, t.keyPredicate("$"))
	}
	for _, n := range t.narrow {
		texts[n.name] = t.insertSQL(n, "$", t.typedConstant(types))
	}
	for _, u := range t.updates {
		texts[u.name] = t.updateSQL(u, "$", "", t.keyPredicate("$"))
		if next := t.versionPredicate(u, "$", types); next != "" {
			texts[versionCheckedName(u.name)] = requireAllRows(t.updateSQL(u, "$", "", t.keyPredicate("$")+" AND "+next), "1")
		}
	}
	return texts
}

// versionCheckedName is the name of the variant of an update that also checks versions. Each row
// must have the version before the given one. If one has not, the statement fails with a division
// by zero; otherwise it returns a row.
func versionCheckedName(update string) string { return update + "_following" }

// versionPredicate compares the version of a row with the one before that of an update's arguments,
// which are numbered after a prefix. It is empty if the update has no version.
func (t table) versionPredicate(u update, prefix string, types []string) string {
	at := slices.Index(t.columns[:u.end], "version")
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("%s.version = %s%d::%s - 1", t.name, prefix, at-t.fixed+t.keys+1, types[at])
}

// requireAllRows makes a statement fail unless it affects exactly so many rows.
func requireAllRows(statement, rows string) string {
	return fmt.Sprintf("WITH changed AS (%s RETURNING 1) SELECT 1 / ((SELECT count(*) FROM changed) = %s)::int", statement, rows)
}

// nullableType is the type of columns in which zero may be written as NULL: a zero takes eight
// bytes, and NULL one bit. An empty text takes one byte, and stays.
const nullableType = "bigint"

// typedConstant gives a constant the type of its column, and replaces a zero by NULL where
// nullWhenZero says so.
func (t table) typedConstant(types []string) func(constant string, column int) string {
	return func(constant string, column int) string {
		if t.nullWhenZero(types, column) {
			constant = "NULL"
		}
		return constant + "::" + types[column]
	}
}

// nullWhenZero reports whether a zero in a column is written as NULL.
func (t table) nullWhenZero(types []string, column int) bool {
	_, is := slices.BinarySearch(t.nullable, column)
	return is && types[column] == nullableType
}

// nullWhenZeroArgs lists, for each statement that writes rows of a table, the arguments in such
// columns.
func (t table) nullWhenZeroArgs(types []string) map[string][]int {
	all := make([]int, len(t.columns))
	for i := range all {
		all[i] = i
	}
	given := map[string][]int{"add_" + t.name: all, "put_" + t.name: all}
	for _, n := range t.narrow {
		given[n.name] = exclude(n.omitted, all)
	}
	for _, u := range t.updates {
		given[u.name] = slices.Concat(all[:t.keys], all[t.fixed:u.end])
	}
	blanks := map[string][]int{}
	for name, columns := range given {
		for i, column := range columns {
			if t.nullWhenZero(types, column) {
				blanks[name] = append(blanks[name], i)
			}
		}
	}
	return blanks
}

// keyJoin compares the key of a row with numbered columns after a prefix. The first column is
// compared with an array of one element, which leaves the planner only a lookup of each row by its
// key.
//
// With equations alone it could scan the whole table and compare each row with each given one. With
// an array for each column it could look up the first column, and scan all rows with that value. It
// considers these as good for a table that was small when it was analysed or planned for, however
// large the table is now.
func (t table) keyJoin(prefix string) string {
	each := make([]string, t.keys)
	for i, c := range t.columns[:t.keys] {
		each[i] = fmt.Sprintf("%s.%s = %s%d", t.name, c, prefix, i+1)
	}
	each[0] = fmt.Sprintf("%s.%s = ANY (ARRAY[%s1])", t.name, t.columns[0], prefix)
	return strings.Join(each, " AND ")
}

// placeholders lists the numbers from 1 to n, each after a prefix.
func placeholders(prefix string, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(prefix, i+1)
	}
	return strings.Join(words, ", ")
}

// unnest makes rows of arrays of equal length, one array per column. In the select list they are
// read in parallel. In the FROM clause PostgreSQL would first copy each array into a buffer.
func unnest(types []string) string {
	columns := make([]string, len(types))
	for i, t := range types {
		columns[i] = fmt.Sprintf("unnest(?%d::%s[])", i+1, t)
	}
	return "SELECT " + strings.Join(columns, ", ")
}

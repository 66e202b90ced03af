package store

import (
	"fmt"
	"slices"
	"strings"
)

// bulkStatements gives the statements that write many rows of a table at once, by name. Each
// column is an array, of one of the types.
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

// singleRowStatements gives the same for one row.
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

// versionCheckedName is the name of the statement that does what an update does, for rows of which each
// has the version before the one that it is given. If one has not, it fails with a division by
// zero, and otherwise it gives a row.
func versionCheckedName(update string) string { return update + "_following" }

// versionPredicate says of a row that it has the version before that of an update's arguments, which have a
// prefix before their number; nothing if they have none.
func (t table) versionPredicate(u update, prefix string, types []string) string {
	at := slices.Index(t.columns[:u.end], "version")
	if at < 0 {
		return ""
	}
	return fmt.Sprintf("%s.version = %s%d::%s - 1", t.name, prefix, at-t.fixed+t.keys+1, types[at])
}

// requireAllRows makes a statement fail if it does not concern so many rows.
func requireAllRows(statement, rows string) string {
	return fmt.Sprintf("WITH changed AS (%s RETURNING 1) SELECT 1 / ((SELECT count(*) FROM changed) = %s)::int", statement, rows)
}

// nullableType is the type of columns that are NULL instead of zero, if they are sparse: a zero takes
// eight bytes, and NULL one bit. An empty text takes one byte, and stays.
const nullableType = "bigint"

// typedConstant gives a constant the type of its column, and makes it NULL if it is such a zero.
func (t table) typedConstant(types []string) func(constant string, column int) string {
	return func(constant string, column int) string {
		if t.nullWhenZero(types, column) {
			constant = "NULL"
		}
		return constant + "::" + types[column]
	}
}

// nullWhenZero reports whether a zero in a column is NULL.
func (t table) nullWhenZero(types []string, column int) bool {
	_, is := slices.BinarySearch(t.nullable, column)
	return is && types[column] == nullableType
}

// nullWhenZeroArgs are, of each statement that writes rows of a table, the arguments that are such.
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

// keyJoin says of a row that its key is that of a row with numbered columns after a prefix.
// The first column is looked for in an array of one: so the database can but look rows up by
// their key. With equations alone it may also go through the whole table, and compare each of
// its rows with each that is given; with an array for each column it may look up the first, and
// go through all rows that have that. Of a table that was small when it was counted, or planned
// for, it takes that to be as good, however large it has become.
func (t table) keyJoin(prefix string) string {
	each := make([]string, t.keys)
	for i, c := range t.columns[:t.keys] {
		each[i] = fmt.Sprintf("%s.%s = %s%d", t.name, c, prefix, i+1)
	}
	each[0] = fmt.Sprintf("%s.%s = ANY (ARRAY[%s1])", t.name, t.columns[0], prefix)
	return strings.Join(each, " AND ")
}

// placeholders are the numbers up to n, each after a prefix.
func placeholders(prefix string, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(prefix, i+1)
	}
	return strings.Join(words, ", ")
}

// unnest makes rows of arrays, one for each column, all equally long. In the list of a query
// they are read side by side; as a table, PostgreSQL would first copy each into a buffer of its
// own.
func unnest(types []string) string {
	columns := make([]string, len(types))
	for i, t := range types {
		columns[i] = fmt.Sprintf("unnest(?%d::%s[])", i+1, t)
	}
	return "SELECT " + strings.Join(columns, ", ")
}

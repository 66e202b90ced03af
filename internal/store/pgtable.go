package store

import (
	"fmt"
	"slices"
	"strings"
)

// writingMany gives the statements that write many rows of a table at once, by name. Each
// column is an array, of one of the types.
func (t table) writingMany(types []string) map[string]string {
	key := strings.Join(t.columns[:t.keys], ", ")
	add := fmt.Sprintf("INSERT INTO %s (%s) SELECT * FROM %s", t.name, strings.Join(t.columns, ", "), unnest(types))
	texts := map[string]string{
		"add_" + t.name: add, "put_" + t.name: add + t.onConflict(),
		"drop_" + t.name: fmt.Sprintf("DELETE FROM %s WHERE (%s) IN (SELECT * FROM %s)", t.name, key, unnest(types[:t.keys])),
	}
	if later := t.later.columns; later != nil {
		into, constants := t.adding(func(c string, column int) string { return c + "::" + types[column] })
		texts["new_"+t.name] = fmt.Sprintf("%s SELECT fresh.*, %s FROM %s AS fresh", into, constants, unnest(without(later, types)))
	}
	for _, u := range t.updates {
		given := slices.Concat(types[:t.keys], types[t.fixed:u.end])
		from := fmt.Sprintf("FROM %s AS changed (%s)", unnest(given), numbered("c", len(given)))
		texts[u.name] = t.updating(u, "c", from)
	}
	return texts
}

// writingOne gives the same for one row.
func (t table) writingOne() map[string]string {
	key := strings.Join(t.columns[:t.keys], ", ")
	add := fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", t.name, strings.Join(t.columns, ", "), numbered("$", len(t.columns)))
	texts := map[string]string{
		"add_" + t.name: add, "put_" + t.name: add + t.onConflict(),
		"drop_" + t.name: fmt.Sprintf("DELETE FROM %s WHERE (%s) = (%s)", t.name, key, numbered("$", t.keys)),
	}
	if t.later.columns != nil {
		texts["new_"+t.name] = t.addingOne("$")
	}
	for _, u := range t.updates {
		texts[u.name] = t.updating(u, "$", "")
	}
	return texts
}

// numbered are the numbers up to n, each after a prefix.
func numbered(prefix string, n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(prefix, i+1)
	}
	return strings.Join(words, ", ")
}

func unnest(types []string) string {
	casts := make([]string, len(types))
	for i, t := range types {
		casts[i] = fmt.Sprintf("?%d::%s[]", i+1, t)
	}
	return "unnest(" + strings.Join(casts, ", ") + ")"
}

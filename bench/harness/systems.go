package harness

import (
	"fmt"
	"slices"
	"strings"
)

// entry is a system that can be measured: its program, and what it needs.
type entry struct {
	name     string
	program  string
	args     []string
	redis    bool
	postgres bool
	optional bool   // measured only if named
	about    string // for the help text of the flag
}

// entries are all systems, in the order of the table.
var entries = []entry{
	{name: "floor", program: "floor", redis: true, about: "ideal Redis + gRPC loop, nothing durable"},
	{name: "coppice-embedded", program: "coppice", args: []string{"-kind", "embedded"}, about: "Coppice in one process; SQLite, miniredis"},
	{name: "coppice-pg", program: "coppice", args: []string{"-kind", "separate"}, redis: true, postgres: true, about: "Coppice; orchestrator, worker, PostgreSQL, Redis"},
	{name: "asynq", program: "asynq", redis: true, about: "asynq; Redis"},
	{name: "river", program: "river", postgres: true, about: "River, recorded results; PostgreSQL"},
	{name: "river-eager", program: "river", args: []string{"-eager"}, postgres: true, about: "River, results in memory before they are recorded; PostgreSQL"},
	{name: "river-wide", program: "river", args: []string{"-workers", "1000"}, postgres: true, about: "River, recorded results, 1,000 jobs at once; PostgreSQL"},
	{name: "river-default", program: "river", args: []string{"-default"}, postgres: true, optional: true, about: "River, default settings; PostgreSQL"},
	{name: "dbos", program: "dbos", postgres: true, about: "DBOS, child workflows; PostgreSQL"},
	{name: "restate", program: "restate", about: "Restate, calls of a service; its own store"},
	{name: "temporal", program: "temporal", about: "Temporal, child workflows, defaults; SQLite in memory"},
	{name: "temporal-tuned", program: "temporal", args: []string{"-tuned"}, about: "Temporal, settings for speed; SQLite in memory"},
	{name: "temporal-file", program: "temporal", args: []string{"-tuned", "-file"}, optional: true, about: "the same; SQLite in a file"},
}

// Systems lists all systems, one per line.
func Systems() string {
	var lines strings.Builder
	for _, e := range entries {
		optional := ""
		if e.optional {
			optional = " (only if named)"
		}
		fmt.Fprintf(&lines, "%-16s %s%s\n", e.name, e.about, optional)
	}
	return lines.String()
}

// choose returns the systems with these names. No names mean all that are not optional.
func choose(names []string) ([]entry, error) {
	var chosen []entry
	for _, e := range entries {
		if slices.Contains(names, e.name) || len(names) == 0 && !e.optional {
			chosen = append(chosen, e)
		}
	}
	for _, name := range names {
		if !slices.ContainsFunc(entries, func(e entry) bool { return e.name == name }) {
			return nil, fmt.Errorf("there is no system %q; there are:\n%s", name, Systems())
		}
	}
	return chosen, nil
}

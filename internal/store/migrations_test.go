package store

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// expanding is what a migration may do, so that the release before goes on beside
// this one: what it does not know of gets a value by itself.
var expanding = []*regexp.Regexp{
	regexp.MustCompile(`^CREATE (TABLE|(UNIQUE )?INDEX) `),
	regexp.MustCompile(`^ALTER TABLE \w+ ADD COLUMN \w+ \w+ NOT NULL DEFAULT `),
	regexp.MustCompile(`^ALTER TABLE \w+ ADD COLUMN \w+ \w+$`),
	regexp.MustCompile(`^(UPDATE|INSERT INTO) `),
	// No statement names it: what finds it, and how rows are laid out, is the database's.
	regexp.MustCompile(`^DROP INDEX (tasks_(children|released)|sessions_newest|batches_at|ready_due|callbacks_due)$`),
	regexp.MustCompile(`^ALTER (TABLE|INDEX) \w+ SET \(fillfactor = \d+\)$`),
	regexp.MustCompile(`^ALTER TABLE \w+ ALTER COLUMN \w+ SET STORAGE EXTERNAL$`),
	// NULL is written once nobody reads who does not take it for nothing (currentRowForm).
	regexp.MustCompile(`^ALTER TABLE \w+( ALTER COLUMN \w+ DROP NOT NULL,?)+$`),
	// They counted for releases before migration 15, which did not.
	regexp.MustCompile(`^(CREATE|DROP) (FUNCTION (IF EXISTS )?coppice_count_version|TRIGGER (IF EXISTS )?\w+_version )`),
}

// The first migration starts from nothing.
const firstMigration = "00001"

func TestMigrationsOnlyExpand(t *testing.T) {
	t.Parallel()
	names := map[string][]string{}
	statements := 0
	for _, dialect := range []string{"sqlite", "postgres"} {
		found, err := fs.Glob(files, path.Join("migrations", dialect, "*.sql"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			names[dialect] = append(names[dialect], path.Base(file))
			if strings.HasPrefix(path.Base(file), firstMigration) {
				continue
			}
			for _, s := range ups(t, file) {
				statements++
				if !slices.ContainsFunc(expanding, func(r *regexp.Regexp) bool { return r.MatchString(s) }) {
					t.Errorf("%s: the release before may not get on with %q", file, s)
				}
			}
		}
	}
	if statements == 0 {
		t.Error("there are no statements")
	}
	if !slices.Equal(names["sqlite"], names["postgres"]) {
		t.Errorf("the dialects differ: %v and %v", names["sqlite"], names["postgres"])
	}
}

var (
	comments = regexp.MustCompile(`--.*`)
	block    = regexp.MustCompile(`(?s)-- \+goose StatementBegin\n(.*?)-- \+goose StatementEnd`)
)

// ups gives the statements that a migration makes, each on one line.
func ups(t *testing.T, file string) []string {
	t.Helper()
	text, err := fs.ReadFile(files, file)
	if err != nil {
		t.Fatal(err)
	}
	up, _, ok := strings.Cut(string(text), "-- +goose Down")
	if !ok {
		t.Errorf("%s: no way down", file)
	}
	var all []string
	for _, whole := range block.FindAllStringSubmatch(up, -1) {
		all = append(all, strings.Join(strings.Fields(whole[1]), " "))
	}
	up = block.ReplaceAllString(up, "")
	for s := range strings.SplitSeq(comments.ReplaceAllString(up, ""), ";") {
		if s = strings.Join(strings.Fields(s), " "); s != "" {
			all = append(all, s)
		}
	}
	return all
}

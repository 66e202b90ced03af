package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestALogOfTheKilled: a log survives its writers. What was being written when a process was killed does not count, and does
// not damage what its successor writes.
func TestALogOfTheKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "worker-1.log")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(want ...string) {
		t.Helper()
		records, err := ReadLogs(dir)
		must(err)
		var got []string
		for _, r := range records {
			if r.At.IsZero() {
				t.Errorf("%+v has no time", r)
			}
			got = append(got, r.Key)
		}
		if !slices.Equal(got, want) {
			t.Errorf("read %q, want %q", got, want)
		}
	}
	add := func(key string) {
		t.Helper()
		log, err := OpenLog(path)
		must(err)
		must(log.Add(Record{Kind: Created, Key: key}))
		must(log.Close())
	}
	add("a")
	whole, err := os.ReadFile(path)
	must(err)
	must(os.WriteFile(path, append(whole, whole[:len(whole)/2]...), 0o600))
	read("a")
	add("b")
	read("a", "b")
	must(os.WriteFile(path, whole[:len(whole)/2], 0o600))
	read()
	add("c")
	read("c")
	must(os.WriteFile(path, append(whole[:len(whole)/2:len(whole)/2], '\n'), 0o600))
	if _, err := ReadLogs(dir); err == nil {
		t.Error("a damaged line was read as a record")
	}
}

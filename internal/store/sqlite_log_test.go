package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
)

// TestLogGrowsInAdvance: few commits make the log longer, after each of those it has room, and a
// file that is opened with such a log, as after a crash, has everything that was committed.
func TestLogGrowsInAdvance(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	db := running(t, c)
	session := newSession()
	if _, err := db.Update(t.Context(), session, open(session)); err != nil {
		t.Fatal(err)
	}
	longer, length := 0, 0
	const spawned = 60
	for range spawned {
		if _, err := db.Update(t.Context(), session, spawn("go")); err != nil {
			t.Fatal(err)
		}
		log, err := os.ReadFile(c.Database + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		if len(log) == length {
			continue
		}
		longer, length = longer+1, len(log)
		if page := log[length-4096:]; !bytes.Equal(page, make([]byte, len(page))) {
			t.Errorf("a log that has become %d bytes long has no room at its end", length)
		}
	}
	if longer > 8 {
		t.Errorf("%d of %d commits made the log longer", longer, spawned)
	}
	crashed := filepath.Join(t.TempDir(), "crashed.db")
	for _, of := range []string{"", "-wal"} {
		data, err := os.ReadFile(c.Database + of)
		if err := errors.Join(err, os.WriteFile(crashed+of, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	again := running(t, store.Config{Database: crashed})
	tasks, err := again.Tree(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) != spawned+1 {
		t.Errorf("after a crash there are %d tasks, want %d", len(tasks), spawned+1)
	}
}

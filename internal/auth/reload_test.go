package auth

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEachFailureIsLogged once, also if it is the same as an earlier one that has passed.
func TestEachFailureIsLogged(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Now()}
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, []byte("right"))
	var log strings.Builder
	f, err := newReloader(slog.New(slog.NewTextHandler(&log, nil)), func(contents [][]byte) (string, error) {
		if text := string(contents[0]); text != "wrong" {
			return text, nil
		}
		return "", errors.New("it is wrong")
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	f.now, f.checkedAt = c.now, c.at
	remove := func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		change func()
		logged int
	}{
		{remove, 1},
		{func() {}, 1},
		{func() { write(t, path, []byte("right")) }, 1},
		{remove, 2},
		{func() { write(t, path, []byte("wrong")) }, 3},
		{func() {}, 3},
		{func() { write(t, path, []byte("right")) }, 3},
		{func() { write(t, path, []byte("wrong")) }, 4},
	} {
		step.change()
		c.pass(checkInterval)
		if got := f.get(); got != "right" {
			t.Errorf("step %d: %q", i, got)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != step.logged {
			t.Errorf("step %d: %d failures are logged, want %d", i, n, step.logged)
		}
	}
}

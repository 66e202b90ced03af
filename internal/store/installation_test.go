package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
)

// TestADatabaseKeepsItsInstallation: a new database takes the name that it is given,
// and is never opened under another.
func TestADatabaseKeepsItsInstallation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "coppice.db")
	for _, c := range []struct{ given, want string }{
		{"prod", "prod"}, {"", "prod"}, {"prod", "prod"}, {"stage", ""}, {"", "prod"},
	} {
		db, err := store.Open(t.Context(), store.Config{Database: path, NewInstallation: c.given})
		if c.want == "" {
			if !errors.Is(err, store.ErrOtherInstallation) || !strings.Contains(err.Error(), "of the installation prod, not stage") {
				t.Errorf("%q: %v", c.given, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := db.Installation(); got != c.want {
			t.Errorf("%q: it is %s", c.given, got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

package harness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSettingSaysWhatWasBuilt: not what the repository has become since.
func TestSettingSaysWhatWasBuilt(t *testing.T) {
	t.Parallel()
	binaries := t.TempDir()
	if setting := Setting(t.Context(), binaries); strings.Contains(setting, "Coppice") {
		t.Errorf("nobody has said of what Coppice is built: %q", setting)
	}
	if err := os.WriteFile(filepath.Join(binaries, "coppice-commit"), []byte("0123abc-dirty\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if setting := Setting(t.Context(), binaries); !strings.Contains(setting, ", Coppice 0123abc-dirty,") {
		t.Errorf("what is built is not in %q", setting)
	}
}

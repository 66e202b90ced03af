package assembly_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAMistakeNamesItsFlag: whoever starts a process with a value that can't be is told which
// flag has it.
func TestAMistakeNamesItsFlag(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct{ program, flag, value string }{
		{"worker", "--workspace", missing}, {"worker", "--workspaces", missing}, {"worker", "--slots", "0"},
		{"orchestrator", "--listen", "nonsense"},
	} {
		out, err := exec.Command(filepath.Join(bin, c.program), c.flag, c.value).CombinedOutput()
		if err == nil || !strings.Contains(string(out), `"error":"`+c.flag) {
			t.Errorf("%s %s %s: %v: %s", c.program, c.flag, c.value, err, out)
		}
	}
}

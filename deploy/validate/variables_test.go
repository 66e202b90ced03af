package validate_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// variable is one of ours, as it is said or read somewhere.
var variable = regexp.MustCompile(`\bCOPPICE_[A-Z_]+\b`)

// TestVariablesAreRead: no file sets a variable that the programs don't know.
func TestVariablesAreRead(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		// These are the compose file's own.
		"COPPICE_ORCHESTRATOR_IMAGE": true, "COPPICE_WORKER_IMAGE": true, "COPPICE_TOKENS_DIR": true, "COPPICE_WORKER_TOKEN": true,
	}
	for _, dir := range []string{"../../cmd", "../../internal"} {
		walk(t, dir, func(path, text string) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				for _, name := range variable.FindAllString(text, -1) {
					known[name] = true
				}
			}
		})
	}
	check := func(path, text string) {
		for _, name := range variable.FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s: no program reads %s", path, name)
			}
		}
	}
	walk(t, "../k8s", check)
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	check("compose.yaml", string(text))
}

func walk(t *testing.T, dir string, each func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		each(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

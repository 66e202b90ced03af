package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFilesAreListed: what there are many files in says in doc.go what each of them is about.
func TestFilesAreListed(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^//\t\w+\.go `)
	for _, pkg := range []string{"orchestrator", "store", "tree"} {
		doc, err := os.ReadFile(pkg + "/doc.go")
		files, globErr := filepath.Glob(pkg + "/*.go")
		if err != nil || globErr != nil {
			t.Fatal(err, globErr)
		}
		var want []string
		for _, f := range files {
			if name := filepath.Base(f); name != "doc.go" && !strings.HasSuffix(name, "_test.go") {
				want = append(want, "//\t"+name+" ")
			}
		}
		listed := line.FindAllString(string(doc), -1)
		slices.Sort(listed)
		if !slices.Equal(listed, want) {
			t.Errorf("%s/doc.go lists\n%q, the files are\n%q", pkg, listed, want)
		}
	}
}

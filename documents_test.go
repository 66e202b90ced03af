package coppice_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/coppice-run/coppice"
	"github.com/coppice-run/coppice/internal/agentdef"
)

// TestDefinitionsInDocumentsCanBePut: whoever copies one has one that is accepted.
func TestDefinitionsInDocumentsCanBePut(t *testing.T) {
	t.Parallel()
	pages, err := fs.Glob(coppice.Documents, "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "README.md") {
		text, err := fs.ReadFile(coppice.Documents, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```markdown\n")[1:] {
			definition, _, _ := strings.Cut(block, "```")
			if !strings.HasPrefix(definition, "---\nname:") {
				continue
			}
			found++
			if _, err := agentdef.Parse(page, []byte(definition)); err != nil {
				t.Errorf("%v:\n%s", err, definition)
			}
		}
	}
	if found == 0 {
		t.Error("there is no definition in the documents")
	}
}

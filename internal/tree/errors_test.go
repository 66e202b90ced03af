package tree

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestDetailedErrorsEqualTheirNamedOnes(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("spawning: %w", ErrTooDeep.With("%d", 4))
	if !errors.Is(err, ErrTooDeep) || errors.Is(err, ErrTooWide) {
		t.Errorf("%v is not what it was made of", err)
	}
	if got, want := err.Error(), "spawning: the depth cap is reached: 4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if CodeOf(err) != CodePrecondition {
		t.Errorf("code %d", CodeOf(err))
	}
	if CodeOf(errors.New("disk full")) != CodeInternal {
		t.Error("an error without a name has a code")
	}
	if ErrTooDeep.Error() != "the depth cap is reached" {
		t.Errorf("the named error has changed: %v", ErrTooDeep)
	}
}

// TestEveryRefusalHasAScript keeps the scripts complete: a new named error needs
// a conversation that shows when it comes.
func TestEveryRefusalHasAScript(t *testing.T) {
	t.Parallel()
	// These are refusals of what is around the core.
	elsewhere := []*Error{ErrKeyReused, ErrNoWorker, ErrStopping, ErrUnavailable, ErrBeyondEnd}
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`name: "([^"]+)"`).FindAllStringSubmatch(string(source), -1)
	if len(names) == 0 {
		t.Fatal("errors.go names no error")
	}
	shown := allScripts(t)
	for _, name := range names {
		isElsewhere := false
		for _, e := range elsewhere {
			isElsewhere = isElsewhere || e.name == name[1]
		}
		isShown := strings.Contains(shown, "! "+name[1]) || strings.Contains(shown, "(error) "+name[1])
		if isShown == isElsewhere {
			t.Errorf("%q: in a script: %t, a refusal of the core: %t", name[1], isShown, !isElsewhere)
		}
	}
}

func allScripts(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

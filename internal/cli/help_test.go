package cli

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHelpNamesOwnFlags: what the help of a command says of flags is about flags that it has, so
// that flags that several commands share say what is true of each.
func TestHelpNamesOwnFlags(t *testing.T) {
	t.Parallel()
	declared, named := regexp.MustCompile(`(?m)^(?:  -., |      )(--[a-z-]+)`), regexp.MustCompile(`--[a-z-]+`)
	for _, command := range commandLines(reflect.TypeOf(commands{}), nil) {
		var out strings.Builder
		if code := Main(t.Context(), Process{Args: append(command, "--help"), Stdout: &out, Stderr: &out}); code != 0 {
			t.Fatalf("%v --help: exit code %d: %s", command, code, &out)
		}
		var own []string
		for _, found := range declared.FindAllStringSubmatch(out.String(), -1) {
			own = append(own, found[1])
		}
		for _, flag := range named.FindAllString(out.String(), -1) {
			elsewhere := flag == "--workspaces" || flag == "--delete" && len(command) == 1 // a worker's, and that of workspaces prune
			if !slices.Contains(own, flag) && !elsewhere {
				t.Errorf("the help of coppice %s mentions %s", strings.Join(command, " "), flag)
			}
		}
	}
}

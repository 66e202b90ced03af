package cli

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/auth"
)

// flagsOf gives the names of the flags that a struct declares, with those of what it embeds.
func flagsOf(declared reflect.Type) (names []string) {
	for i := range declared.NumField() {
		field := declared.Field(i)
		_, embedded := field.Tag.Lookup("embed")
		switch name := field.Tag.Get("name"); {
		case field.Tag.Get("help") == "" && (field.Anonymous || embedded):
			names = append(names, flagsOf(field.Type)...)
		case field.Tag.Get("help") == "":
		case name != "":
			names = append(names, name)
		default:
			names = append(names, dashed(field.Name))
		}
	}
	return names
}

func dashed(name string) string {
	var out strings.Builder
	for i, r := range name {
		if i > 0 && 'A' <= r && r <= 'Z' {
			out.WriteByte('-')
		}
		out.WriteRune(r)
	}
	return strings.ToLower(out.String())
}

// TestNothingThatIsTypedIsIgnoredElsewhere: a flag about this process is refused of a run at an
// orchestrator, whatever will be declared.
func TestNothingThatIsTypedIsIgnoredElsewhere(t *testing.T) {
	t.Parallel()
	local := reflect.TypeOf(localFlags{})
	names := append(flagsOf(local), "workspace", "data")
	for _, name := range strings.Fields(inProcessFlags) {
		if !slices.Contains(names, name) {
			t.Errorf("there is no --%s", name)
		}
	}
	for _, name := range names {
		value := "=1"
		switch name {
		case "model": // goes with the session
			continue
		case "patience", "run-timeout":
			value = "=" + time.Second.String()
		case "sandbox":
			value = "=off"
		case "openai-api":
			value = "=chat"
		case "openai-effort":
			value = "=low"
		case "bash-network", "definition-hooks":
			value = ""
		}
		var said strings.Builder
		code := Main(t.Context(), Process{
			Args:   []string{"run", "--orchestrator", "127.0.0.1:1", "--" + name + value, "hello"},
			Stdout: io.Discard, Stderr: &said,
		})
		if want := fmt.Sprintf("coppice: --%s is for a run in this process", name); code != exitUsage || !strings.HasPrefix(said.String(), want) {
			t.Errorf("--%s: exit code %d: %s", name, code, &said)
		}
	}
}

// TestNothingThatIsTypedIsIgnoredHere: a flag about an orchestrator is refused of a run in this
// process, whatever will be declared.
func TestNothingThatIsTypedIsIgnoredHere(t *testing.T) {
	t.Parallel()
	names := append(flagsOf(reflect.TypeOf(auth.ClientFlags{})), "shared-workspace", "on-approval")
	if want := strings.Fields(orchestratorFlags); len(want) != len(names) {
		t.Errorf("there are %s, and refused are %s", names, want)
	}
	for _, name := range names {
		value := "=1"
		if name == "tls" || name == "insecure" {
			value = ""
		}
		var said strings.Builder
		code := Main(t.Context(), Process{Args: []string{"run", "--" + name + value, "hello"}, Stdout: io.Discard, Stderr: &said})
		want := fmt.Sprintf("coppice: --%s is for a run at an orchestrator; set --orchestrator to use one\n", name)
		if code != exitUsage || said.String() != want {
			t.Errorf("--%s: exit code %d: %s", name, code, &said)
		}
	}
}

package cli

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// variables are those of the environment that coppice reads: they say where things are, how
// processes of this machine are made and how things are shown. What one command is to do, and
// to what, is said on its line alone.
var variables = strings.Fields(`
	COPPICE_AGENTS_DIR COPPICE_ALLOW COPPICE_APPROVALS COPPICE_APPROVAL_TIMEOUT COPPICE_ASK COPPICE_BASH_NETWORK COPPICE_CALLBACK_HOSTS COPPICE_DATA
	COPPICE_DEFINITION_HOOKS COPPICE_DELTAS COPPICE_DENY COPPICE_FETCH_ALLOW COPPICE_HOOKS COPPICE_INSECURE COPPICE_JSON
	COPPICE_LISTEN COPPICE_MAX_ITERATIONS COPPICE_MAX_ITERATIONS_SUB COPPICE_MCP_CONFIG COPPICE_METRICS_LISTEN COPPICE_MODEL COPPICE_MODELS COPPICE_OPENAI_API COPPICE_OPENAI_EFFORT COPPICE_ORCHESTRATOR
	COPPICE_PATIENCE COPPICE_PERMISSION_MODE COPPICE_PLUGINS_DIR COPPICE_PPROF_LISTEN COPPICE_PRICES COPPICE_QUIET
	COPPICE_RATE COPPICE_REDACT_ENV COPPICE_REDACT_FILE COPPICE_REDIS_URL COPPICE_RUN_TIMEOUT COPPICE_SANDBOX COPPICE_SANDBOX_ENV
	COPPICE_SANDBOX_READABLE COPPICE_SCENARIO COPPICE_SEED COPPICE_SHARED_WORKSPACE COPPICE_SKILLS_DIR COPPICE_SLOTS
	COPPICE_THINKING COPPICE_TLS COPPICE_TLS_CA COPPICE_TLS_CERT COPPICE_TLS_KEY COPPICE_TOKEN COPPICE_TOKENS
	COPPICE_TOKEN_FILE COPPICE_TROUBLE COPPICE_WORKSPACE COPPICE_WORKSPACES
`)

// TestVariables: no variable that was left in an environment makes a command do what nobody has
// typed.
func TestVariables(t *testing.T) {
	t.Parallel()
	named := regexp.MustCompile(`\$\s*(COPPICE_[A-Z_]+)`)
	all := map[string]bool{}
	for _, command := range commandLines(reflect.TypeOf(commands{}), nil) {
		var out strings.Builder
		if code := Main(t.Context(), Process{Args: append(command, "--help"), Stdout: &out, Stderr: &out}); code != 0 {
			t.Fatalf("%v --help: exit code %d: %s", command, code, &out)
		}
		for _, found := range named.FindAllStringSubmatch(out.String(), -1) {
			all[found[1]] = true
			if !slices.Contains(variables, found[1]) {
				t.Errorf("coppice %s reads $%s", strings.Join(command, " "), found[1])
			}
		}
	}
	for _, name := range variables {
		if !all[name] {
			t.Errorf("nothing reads $%s", name)
		}
	}
}

// commandLines are the words of all commands that a struct declares.
func commandLines(declared reflect.Type, above []string) (all [][]string) {
	for i := range declared.NumField() {
		field := declared.Field(i)
		if _, is := field.Tag.Lookup("cmd"); !is {
			continue
		}
		name := field.Tag.Get("name")
		if name == "" {
			name = strings.ToLower(field.Name)
		}
		words := append(slices.Clone(above), name)
		all = append(append(all, words), commandLines(field.Type, words)...)
	}
	return all
}

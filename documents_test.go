package coppice_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-run/coppice"
	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/cli"
)

// documents gives the pages that people read, by their names.
func documents(t *testing.T) map[string]string {
	t.Helper()
	names, err := fs.Glob(coppice.Documents, "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, name := range append(names, "README.md") {
		text, err := fs.ReadFile(coppice.Documents, name)
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(text)
	}
	return pages
}

// TestDefinitionsInDocumentsCanBePut: whoever copies one has one that is accepted.
func TestDefinitionsInDocumentsCanBePut(t *testing.T) {
	t.Parallel()
	found := 0
	for page, text := range documents(t) {
		for _, block := range strings.Split(text, "```markdown\n")[1:] {
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

// TestTheClientInDocumentsIsOne: the Go program of docs/clients.md builds with the API as it is.
func TestTheClientInDocumentsIsOne(t *testing.T) {
	t.Parallel()
	_, client, found := strings.Cut(documents(t)["docs/clients.md"], "```go\n")
	client, _, closed := strings.Cut(client, "```")
	const generated = `"example.com/mine/gen/coppice/v1"`
	if !found || !closed || !strings.Contains(client, generated) {
		t.Fatal("there is no client in the documents")
	}
	client = strings.Replace(client, generated, `"github.com/coppice-run/coppice/internal/gen/coppice/v1"`, 1)
	// It stands where it may import that, without being there.
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(here, "cmd", "client", "main.go"): filepath.Join(dir, "main.go"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"main.go": client, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", dir, "./cmd/client")
	if said, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
}

// ofOthers are the flags in documents that other programs take, and those programs.
var ofOthers = map[string]string{
	"--branch": "git", "--ignore-scripts": "npm", "--security-opt": "docker",
	"--from-file": "kubectl", "--from-literal": "kubectl", "--grace-period": "kubectl",
	"--enable-auto-tool-choice": "vllm", "--tool-call-parser": "vllm", "--jinja": "llama-server", "--port": "llama-server", "--owner": "createdb",
	"--python": "protoc", "--grpc": "protoc", // what ends with _out
}

// TestFlagsInDocumentsAreTaken by one of the programs.
func TestFlagsInDocumentsAreTaken(t *testing.T) {
	t.Parallel()
	taken := map[string]bool{}
	for _, help := range append(helpOfCommands(t), helpOf(t, "./cmd/orchestrator"), helpOf(t, "./cmd/worker")) {
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(help, -1) {
			taken[flag[1]] = true
		}
	}
	for page, text := range documents(t) {
		for _, flag := range regexp.MustCompile(`(?m)(?:^|[^\w-])(--[a-z][a-z-]*)`).FindAllStringSubmatch(text, -1) {
			if !taken[flag[1]] && ofOthers[flag[1]] == "" {
				t.Errorf("%s names %s, which no program takes", page, flag[1])
			}
		}
	}
}

// TestTestsInDocumentsAreThere: what is said to be shown by a test is shown by one.
func TestTestsInDocumentsAreThere(t *testing.T) {
	t.Parallel()
	there := map[string]bool{"TestName": true} // a place for any of them
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, f := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			there[string(f[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages := documents(t)
	contributing, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	pages["CONTRIBUTING.md"] = string(contributing)
	for page, text := range pages {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(text, -1) {
			if !there[name] {
				t.Errorf("%s names %s, which is no test", page, name)
			}
		}
	}
}

// helpOfCommands gives the help of coppice and of all commands below those given.
func helpOfCommands(t *testing.T, above ...string) []string {
	t.Helper()
	var out strings.Builder
	if code := cli.Main(t.Context(), cli.Process{Args: append(above, "--help"), Stdout: &out, Stderr: &out}); code != 0 {
		t.Fatalf("coppice %v --help: exit code %d: %s", above, code, &out)
	}
	all := []string{out.String()}
	for _, command := range regexp.MustCompile(`(?m)^  ([a-z][a-z-]*)  `).FindAllStringSubmatch(out.String(), -1) {
		all = append(all, helpOfCommands(t, append(above[:len(above):len(above)], command[1])...)...)
	}
	return all
}

// helpOf gives the help of a program.
func helpOf(t *testing.T, program string) string {
	t.Helper()
	out, err := exec.Command("go", "run", program, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%s --help: %v: %s", program, err, out)
	}
	return string(out)
}

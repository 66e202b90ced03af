package mcp

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const key = "sk-very-secret"

func variables(name string) (string, bool) {
	value, ok := map[string]string{"KEY": key, "HOST": "mcp.example", "EMPTY": "", "BAD": "a\nb"}[name]
	return value, ok
}

func TestParse(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mcp.json")
	text := `{
  "mcpServers": {
    "files": {"type": "stdio", "command": "npx", "args": ["-y", "server-files", "--key=${KEY}"],
      "env": {"API_KEY": "${KEY}", "LEVEL": "debug"}, "cwd": "sub", "writable": ["/var/cache/files"], "network": true, "timeout": "2m"},
    "git-hub_1": {"url": "https://${HOST}/mcp?token=${KEY}", "headers": {"Authorization": "Bearer ${KEY}"},
      "tools": ["get_*", "list"], "trust_annotations": true}
  }
}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(file, variables)
	if err != nil {
		t.Fatal(err)
	}
	want := []Server{
		{
			Name: "files", Command: "npx", Args: []string{"-y", "server-files", "--key=" + key}, Env: []string{"API_KEY=" + key, "LEVEL=debug"},
			Dir: "sub", Writable: []string{"/var/cache/files"}, Network: true, Timeout: 2 * time.Minute, secrets: []string{key, key},
		},
		{
			Name: "git-hub_1", URL: "https://mcp.example/mcp?token=" + key, Headers: []Header{{"Authorization", "Bearer " + key}},
			Tools: []string{"get_*", "list"}, TrustAnnotations: true, secrets: []string{"mcp.example", key, key, key, "Bearer " + key},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	yaml := "mcpServers:\n  a:\n    command: server\n    args: [--verbose]\n  b: {url: http://127.0.0.1:8080}\n"
	if got, err := Parse("x", []byte(yaml), variables); err != nil || len(got) != 2 || got[0].Args[0] != "--verbose" || got[1].URL != "http://127.0.0.1:8080/" {
		t.Errorf("YAML: %+v, %v", got, err)
	}
	if got, err := Parse("x", []byte("\ufeff"+yaml), variables); err != nil || len(got) != 2 {
		t.Errorf("YAML after a byte order mark: %+v, %v", got, err)
	}
	if got, err := Parse("x", []byte(`{"mcpServers": {}}`), variables); err != nil || len(got) != 0 {
		t.Errorf("no servers: %+v, %v", got, err)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	server := func(lines ...string) string {
		return "mcpServers:\n  s:\n    " + strings.Join(lines, "\n    ") + "\n"
	}
	for text, want := range map[string]string{
		"":                              "x:1: expected one YAML document",
		"{}":                            "x:1: expected the key mcpServers",
		"- a":                           "x:1: expected a mapping with the keys mcpServers",
		"mcpServers: [":                 "x:1: sequence end token ']' not found",
		"servers: {}":                   "x:1: unknown key servers",
		"mcpServers:\n  a b: {url: x}":  `x:2: the name "a b" of a server: expected at most 32 letters`,
		"mcpServers:\n  a__b: {url: x}": `x:2: the name "a__b"`,
		"mcpServers:\n  a_: {url: x}":   `x:2: the name "a_"`,
		"mcpServers:\n  a: {url: http://x}\n  a: {url: http://x}": "x:3: ",
		"mcpServers: {" + strings.Repeat("a", 33) + ": {}}":       "of a server: expected at most 32",
		server("{}"):                                         "s: expected either a command or a url",
		server("command: a", "url: http://x"):                "x:2: s: expected either a command or a url",
		server("command: a", "comand: b"):                    "x:4: unknown key comand, expected one of type, command,",
		server("command: ''"):                                "x:3: command: expected a program",
		server("command: 7"):                                 "x:3: command: expected a string",
		server("command: a", "args: b"):                      "x:4: args: expected a list of strings",
		server("command: a", "args: [1]"):                    "x:4: args: expected a string",
		server("command: a", "env: {A B: c}"):                "x:4: env: expected the name of a variable",
		server("command: a", "env: {A: 1}"):                  "x:4: env A: expected a string",
		server("command: a", "env:", "  A: ${NOPE}"):         "x:5: env A: the variable NOPE is not set",
		server("command: a", "env:", "  A: ${BAD}"):          "x:5: env A: the variable BAD: expected at most",
		server("command: a", "env:", "  A: '${not'"):         "x:5: env A: expected ${NAME}",
		server("command: a", "env:", "  A: '${a b}'"):        "x:5: env A: expected ${NAME}",
		server("command: a", "headers: {A: b}"):              "x:4: headers: a server with a command has none",
		server("command: a", "writable: [b]"):                "x:4: writable: expected absolute paths",
		server("command: a", "network: yes please"):          "x:4: network: expected true or false",
		server("url: http://x", "cwd: /"):                    "x:4: cwd: a server with a url has none",
		server("url: ftp://x"):                               "x:3: url: no URL that begins with http",
		server("url: http://u:p@x"):                          "x:3: url: a URL with a user",
		server("url: '${KEY}'"):                              "x:3: url: expected an http or https URL",
		server("url: http://x", "type: sse"):                 "x:4: type: expected stdio or http",
		server("url: http://x", "type: stdio"):               "x:2: s: the type stdio has a command",
		server("url: http://x", "headers: {A B: c}"):         "x:4: headers: expected the name of a header",
		server("url: http://x", "headers: {Accept: c}"):      "x:4: headers: Accept is set by the protocol",
		server("url: http://x", "headers: {mcp-x: c}"):       "x:4: headers: mcp-x is set by the protocol",
		server("url: http://x", "timeout: 5"):                "x:4: timeout: expected a string",
		server("url: http://x", "timeout: 1ms"):              "x:4: timeout: expected a duration from 100ms to 1h0m0s",
		server("url: http://x", "tools: ['[']"):              "x:4: tools: expected globs",
		server("url: http://x", "trust_annotations: 1"):      "x:4: trust_annotations: expected true or false",
		"mcpServers: {" + strings.Repeat(" ", maxFile) + "}": "x:1: expected at most",
	} {
		_, err := Parse("x", []byte(text), variables)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key) {
			t.Errorf("%.300s\n     got %v\n    want %s", text, err, want)
		}
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for want, servers := range map[string][]Server{
		"two MCP servers are named a": {{Name: "a", URL: "http://x"}, {Name: "a", URL: "http://y"}},
		"need a sandbox":              {{Name: "a", Command: "x"}},
	} {
		if _, err := New(Config{Servers: servers}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestScrubber(t *testing.T) {
	t.Parallel()
	s := newScrubber([]string{"Bearer abc/def+ghi", "short", "abc/def+ghi/more"})
	for text, want := range map[string]string{
		"x Bearer abc/def+ghi y": "x [redacted] y",
		"token=abc/def+ghi":      "token=[redacted]",
		"?t=abc%2Fdef%2Bghi&u":   "?t=[redacted]&u",
		"abc/def+ghi/more":       "[redacted]",
		"a short one":            "a short one",
	} {
		if got := s.scrub(text); got != want {
			t.Errorf("%s is %s", text, got)
		}
	}
}

// TestPlaced: links that a person has made lead to the directories of a server, those
// below the workspace don't.
func TestPlaced(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"real/sub", "cache"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"work": "real", "linked": "cache", "real/led": "../cache"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(dir, "work")
	for path, want := range map[string]string{
		"": "real", "sub": "real/sub", "led": "real/led", "none": "real/none", "../linked": "cache",
		work: "real", work + "/sub": "real/sub", work + "/led": "real/led", dir + "/real/led": "real/led",
		dir + "/linked": "cache", dir + "/none": "none",
	} {
		want = filepath.Join(dir, want)
		if got := (Server{Dir: path}).withRealPaths(work).Dir; got != want {
			t.Errorf("it runs in %s as %s, not %s", path, got, want)
		}
		if got := (Server{Writable: []string{path}}).withRealPaths(work).Writable[0]; filepath.IsAbs(path) && got != want {
			t.Errorf("it may write to %s as %s, not %s", path, got, want)
		}
	}
}

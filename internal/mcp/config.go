package mcp

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
)

// Server is a configured server: one that is started (Command), or one that is
// reached by HTTP (URL).
type Server struct {
	Name string

	Command  string
	Args     []string
	Env      []string // KEY=VALUE
	Dir      string   // where it runs; relative to the workspace; empty: the workspace itself, or see [Config]
	Writable []string // further directories that it may change, absolute
	Network  bool     // it may use the network

	URL     string
	Headers []Header

	// Timeout is how long a call may take; 0: [DefaultTimeout].
	Timeout time.Duration
	// Tools are globs of its own names for the tools that are taken over; nil: all.
	Tools []string
	// TrustAnnotations takes its word for which of its tools only read.
	TrustAnnotations bool

	// secrets are texts of the configuration that nobody is told.
	secrets []string
}

// Header is a header that goes with every request.
type Header struct{ Name, Value string }

// DefaultTimeout is how long a call may take if the configuration does not say.
const DefaultTimeout = time.Minute

// Bounds of what is configured.
const (
	maxFile    = 256 << 10 // bytes
	maxText    = 8 << 10   // bytes of a value
	maxServers = 50
	minTimeout = 100 * time.Millisecond
	maxTimeout = time.Hour
)

// Load reads a file of servers. What it names with ${NAME} is looked up in the
// environment.
func Load(file string, lookup func(string) (string, bool)) ([]Server, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the MCP servers: %w", err)
	}
	return Parse(file, data, lookup)
}

// Parse reads a file of servers: YAML, or JSON, which is YAML too, with the one key
// mcpServers. An error begins with "source:line: " and says what was expected there;
// it never holds a value of the environment.
func Parse(source string, data []byte, lookup func(string) (string, bool)) ([]Server, error) {
	r := reader{source: source, lookup: lookup}
	switch {
	case len(data) > maxFile:
		return nil, r.problem(1, "expected at most %d bytes, got %d", maxFile, len(data))
	case !utf8.Valid(data):
		return nil, r.problem(1, "expected text in UTF-8")
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, r.syntax(err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, r.problem(1, "expected one YAML document with the key %s", topKey)
	}
	top, err := r.mapping(file.Docs[0].Body, topKey)
	if err != nil {
		return nil, err
	}
	if len(top) == 0 {
		return nil, r.problem(1, "expected the key %s", topKey)
	}
	named, err := r.mapping(top[0].value)
	if err != nil {
		return nil, err
	}
	if len(named) > maxServers {
		return nil, r.at(top[0].value, "%s: expected at most %d servers, got %d", topKey, maxServers, len(named))
	}
	var servers []Server
	for _, f := range named {
		s, err := r.server(f)
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

const topKey = "mcpServers"

// syntax says where a text is no YAML.
func (r reader) syntax(err error) error {
	line, message := 1, err.Error()
	if syntax, ok := errors.AsType[yaml.Error](err); ok && syntax.GetToken() != nil {
		line, message = syntax.GetToken().Position.Line, syntax.GetMessage()
	}
	return r.problem(line, "expected YAML or JSON: %s", message)
}

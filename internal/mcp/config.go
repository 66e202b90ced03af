package mcp

import (
	"fmt"
	"os"
	"time"

	"github.com/coppice-run/coppice/internal/yamltree"
)

// Server is the configuration of a server: either a process (Command) or an HTTP endpoint
// (URL).
type Server struct {
	Name string

	Command  string
	Args     []string
	Env      []string // KEY=VALUE
	Dir      string   // working directory, relative to the workspace; empty: the workspace, or see [Config]
	Writable []string // further writable directories, absolute
	Network  bool     // network access is allowed

	URL     string
	Headers []Header

	// Timeout of a call; 0: [DefaultTimeout].
	Timeout time.Duration
	// Tools are globs for the names of the tools to offer, as the server names them; nil: all.
	Tools []string
	// TrustAnnotations accepts the server's statement which of its tools only read.
	TrustAnnotations bool

	// secrets are texts of the configuration that must not be shown.
	secrets []string
}

// Header is an HTTP header of every request.
type Header struct{ Name, Value string }

// DefaultTimeout is the default timeout of a call.
const DefaultTimeout = time.Minute

// Bounds of the configuration.
const (
	maxFile    = 256 << 10 // in bytes
	maxText    = 8 << 10   // bytes of a value
	maxServers = 50
	minTimeout = 100 * time.Millisecond
	maxTimeout = time.Hour
)

// Load reads a file of servers. lookup resolves ${NAME} in it.
func Load(file string, lookup func(string) (string, bool)) ([]Server, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the MCP servers: %w", err)
	}
	return Parse(file, data, lookup)
}

// Parse parses a file of servers: YAML or JSON with the only key mcpServers. Errors start with
// "source:line: " and say what was expected there. They never contain a value from the
// environment.
func Parse(source string, data []byte, lookup func(string) (string, bool)) ([]Server, error) {
	r := reader{yamltree.Source{Name: source}, lookup}
	document, err := r.Parse(data, maxFile)
	if err != nil {
		return nil, err
	}
	top, err := r.Fields(document, topKey)
	if err != nil {
		return nil, err
	}
	if len(top) == 0 {
		return nil, r.Errorf(1, "expected the key %s", topKey)
	}
	named, err := r.Fields(top[0].Value)
	if err != nil {
		return nil, err
	}
	if len(named) > maxServers {
		return nil, r.At(top[0].Value, "%s: expected at most %d servers, got %d", topKey, maxServers, len(named))
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

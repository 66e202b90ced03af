package mcp

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"golang.org/x/net/http/httpguts"

	"github.com/coppice-run/coppice/internal/outbound"
)

// reader reads a syntax tree, so that every error has a line and no value is converted.
type reader struct {
	source string
	lookup func(string) (string, bool)
}

func (r reader) problem(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", r.source, line, fmt.Sprintf(format, args...))
}

func (r reader) at(node ast.Node, format string, args ...any) error {
	line := 1
	if node != nil && node.GetToken() != nil {
		line = node.GetToken().Position.Line
	}
	return r.problem(line, format, args...)
}

// field is a key and a value of a mapping.
type field struct {
	key   string
	at    ast.Node
	value ast.Node
}

// mapping returns the fields of a mapping in order. Only the given keys are allowed; without
// keys, any are.
func (r reader) mapping(node ast.Node, keys ...string) ([]field, error) {
	expected := "a mapping"
	if len(keys) > 0 {
		expected += " with the keys " + strings.Join(keys, ", ")
	}
	m, ok := node.(*ast.MappingNode)
	if !ok {
		return nil, r.at(node, "expected %s", expected)
	}
	var fields []field
	for _, v := range m.Values {
		key, ok := stringOf(v.Key)
		if !ok || len(keys) > 0 && !slices.Contains(keys, key) {
			return nil, r.at(v.Key, "unknown key %.100s, expected %s", v.Key, expected)
		}
		if slices.ContainsFunc(fields, func(f field) bool { return f.key == key }) {
			return nil, r.at(v.Key, "%.100s is given twice", key)
		}
		fields = append(fields, field{key, v.Key, v.Value})
	}
	return fields, nil
}

func stringOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// namePattern makes mcp__server__tool unambiguous: a name contains no __ and does not end with
// _.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]|_[A-Za-z0-9-])*$`)

const maxName = 32

// server reads one server.
func (r reader) server(named field) (Server, error) {
	if len(named.key) > maxName || !namePattern.MatchString(named.key) {
		return Server{}, r.at(named.at, "the name %.100q of a server: expected at most %d letters, digits, and single _ and - between them", named.key, maxName)
	}
	fields, err := r.mapping(named.value, "type", "command", "args", "env", "cwd", "writable", "network", "url", "headers",
		"timeout", "tools", "trust_annotations")
	if err != nil {
		return Server{}, err
	}
	f := serverReader{reader: r, server: Server{Name: named.key}}
	kind := ""
	for _, one := range fields {
		f.read(one, &kind)
	}
	f.agree(named, fields, kind)
	if f.err != nil {
		return Server{}, f.err
	}
	return f.server, nil
}

// serverReader reads the values of one server. err is the first problem.
type serverReader struct {
	reader
	server Server
	err    error
}

func (f *serverReader) fail(node ast.Node, format string, args ...any) {
	if f.err == nil {
		f.err = f.at(node, format, args...)
	}
}

func (f *serverReader) read(one field, kind *string) {
	s := &f.server
	switch one.key {
	case "type":
		if *kind = f.text(one, one.value); *kind != "stdio" && *kind != "http" && *kind != "streamable-http" {
			f.fail(one.value, "type: expected stdio or http, got %.100q", *kind)
		}
	case "command":
		if s.Command = f.expanded(one, one.value); s.Command == "" {
			f.fail(one.value, "command: expected a program")
		}
	case "args":
		s.Args = f.list(one, f.expanded)
	case "env":
		s.Env = f.env(one)
	case "cwd":
		s.Dir = f.text(one, one.value)
	case "writable":
		s.Writable = f.list(one, f.directory)
	case "network":
		s.Network = f.flag(one)
	case "url":
		s.URL = f.url(one)
	case "headers":
		s.Headers = f.headers(one)
	case "timeout":
		s.Timeout = f.timeout(one)
	case "tools":
		s.Tools = f.list(one, f.glob)
	case "trust_annotations":
		s.TrustAnnotations = f.flag(one)
	}
}

// agree reports keys that contradict each other.
func (f *serverReader) agree(named field, fields []field, kind string) {
	s := &f.server
	started := []string{"command", "args", "env", "cwd", "writable", "network"}
	switch {
	case (s.Command == "") == (s.URL == ""):
		f.fail(named.at, "%s: expected either a command or a url", s.Name)
	case kind != "" && (kind == "stdio") != (s.Command != ""):
		f.fail(named.at, "%s: the type %s has a %s", s.Name, kind, map[bool]string{true: "command", false: "url"}[kind == "stdio"])
	}
	for _, one := range fields {
		if s.URL != "" && slices.Contains(started, one.key) || s.Command != "" && one.key == "headers" {
			f.fail(one.at, "%s: a server with a %s has none", one.key, map[bool]string{true: "url", false: "command"}[s.URL != ""])
		}
	}
}

// text returns a string without control characters.
func (f *serverReader) text(one field, node ast.Node) string {
	text, ok := stringOf(node)
	switch {
	case !ok:
		f.fail(node, "%s: expected a string; put it in quotes if it is a string", one.key)
	case len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl):
		f.fail(node, "%s: expected at most %d bytes without control characters", one.key, maxText)
	}
	return text
}

// expanded returns a string with ${NAME} replaced from the environment. Values from there are
// recorded as secrets.
func (f *serverReader) expanded(one field, node ast.Node) string {
	text := f.text(one, node)
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found || f.err != nil {
			return out.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !variablePattern.MatchString(name) {
			f.fail(node, "%s: expected ${NAME} with the name of a variable of the environment", one.key)
			return ""
		}
		value, set := f.lookup(name)
		switch {
		case !set:
			f.fail(node, "%s: the variable %s is not set", one.key, name)
		case len(value) > maxText || strings.ContainsFunc(value, unicode.IsControl):
			f.fail(node, "%s: the variable %s: expected at most %d bytes without control characters", one.key, name, maxText)
		}
		f.server.secrets = append(f.server.secrets, value)
		out.WriteString(value)
		text = after
	}
}

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (f *serverReader) list(one field, item func(field, ast.Node) string) []string {
	list, ok := one.value.(*ast.SequenceNode)
	if !ok {
		f.fail(one.value, "%s: expected a list of strings", one.key)
		return nil
	}
	texts := []string{}
	for _, node := range list.Values {
		texts = append(texts, item(one, node))
	}
	return texts
}

func (f *serverReader) env(one field) []string {
	fields, err := f.mapping(one.value)
	if err != nil {
		f.fail(one.value, "env: expected a mapping of names to strings, each name once")
	}
	var env []string
	for _, v := range fields {
		if !variablePattern.MatchString(v.key) {
			f.fail(v.at, "env: expected the name of a variable, got %.100q", v.key)
		}
		env = append(env, v.key+"="+f.expanded(field{key: "env " + v.key}, v.value))
	}
	return env
}

func (f *serverReader) directory(one field, node ast.Node) string {
	dir := f.expanded(one, node)
	if !filepath.IsAbs(dir) {
		f.fail(node, "%s: expected absolute paths", one.key)
	}
	return filepath.Clean(dir)
}

func (f *serverReader) flag(one field) bool {
	value, ok := one.value.(*ast.BoolNode)
	if !ok {
		f.fail(one.value, "%s: expected true or false", one.key)
		return false
	}
	return value.Value
}

func (f *serverReader) url(one field) string {
	known := len(f.server.secrets)
	u, err := outbound.ParseURL(f.expanded(one, one.value))
	switch {
	case f.err != nil:
		return ""
	case err != nil && len(f.server.secrets) > known:
		f.fail(one.value, "url: expected an http or https URL without a user once its variables are filled in")
		return ""
	case err != nil:
		f.fail(one.value, "url: %v", err)
		return ""
	}
	// A token in the query is secret in either encoding.
	for _, values := range u.Query() {
		f.server.secrets = append(f.server.secrets, values...)
	}
	return u.String()
}

// isProtocolHeader reports whether the protocol itself sets a header.
func isProtocolHeader(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "accept", "connection", "content-length", "content-type", "host", "last-event-id", "transfer-encoding", "upgrade":
		return true
	}
	return strings.HasPrefix(name, "mcp-")
}

func (f *serverReader) headers(one field) []Header {
	fields, err := f.mapping(one.value)
	if err != nil {
		f.fail(one.value, "headers: expected a mapping of names to strings, each name once")
	}
	var headers []Header
	for _, v := range fields {
		value := f.expanded(field{key: "headers " + v.key}, v.value)
		switch {
		case !httpguts.ValidHeaderFieldName(v.key):
			f.fail(v.at, "headers: expected the name of a header, got %.100q", v.key)
		case isProtocolHeader(v.key):
			f.fail(v.at, "headers: %s is set by the protocol", v.key)
		case !httpguts.ValidHeaderFieldValue(value):
			f.fail(v.at, "headers: the value of %s can't be sent", v.key)
		}
		f.server.secrets = append(f.server.secrets, value)
		headers = append(headers, Header{v.key, value})
	}
	return headers
}

func (f *serverReader) timeout(one field) time.Duration {
	text := f.text(one, one.value)
	d, err := time.ParseDuration(text)
	if err != nil || d < minTimeout || d > maxTimeout {
		f.fail(one.value, "timeout: expected a duration from %s to %s, such as 30s or 2m, got %.100q", minTimeout, maxTimeout, text)
	}
	return d
}

func (f *serverReader) glob(one field, node ast.Node) string {
	text := f.text(one, node)
	if _, err := path.Match(text, ""); err != nil || text == "" {
		f.fail(node, "%s: expected globs of the server's names for its tools, such as get_*", one.key)
	}
	return text
}

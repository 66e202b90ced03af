package mcp

import (
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
	"github.com/coppice-run/coppice/internal/yamltree"
)

// reader reads servers. lookup resolves variables of the environment.
type reader struct {
	yamltree.Source
	lookup func(string) (string, bool)
}

// namePattern makes mcp__server__tool unambiguous: a name contains no __ and does not end with
// _.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]|_[A-Za-z0-9-])*$`)

const maxName = 32

// server reads one server.
func (r reader) server(named yamltree.Field) (Server, error) {
	if len(named.Key) > maxName || !namePattern.MatchString(named.Key) {
		return Server{}, r.At(named.At, "the name %.100q of a server: expected at most %d letters, digits, and single _ and - between them", named.Key, maxName)
	}
	fields, err := r.Fields(named.Value, "type", "command", "args", "env", "cwd", "writable", "network", "url", "headers",
		"timeout", "tools", "trust_annotations")
	if err != nil {
		return Server{}, err
	}
	f := serverReader{reader: r, server: Server{Name: named.Key}}
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
		f.err = f.At(node, format, args...)
	}
}

func (f *serverReader) read(one yamltree.Field, kind *string) {
	s := &f.server
	switch one.Key {
	case "type":
		if *kind = f.text(one, one.Value); *kind != "stdio" && *kind != "http" && *kind != "streamable-http" {
			f.fail(one.Value, "type: expected stdio or http, got %.100q", *kind)
		}
	case "command":
		if s.Command = f.expanded(one, one.Value); s.Command == "" {
			f.fail(one.Value, "command: expected a program")
		}
	case "args":
		s.Args = f.list(one, f.expanded)
	case "env":
		s.Env = f.env(one)
	case "cwd":
		s.Dir = f.text(one, one.Value)
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
func (f *serverReader) agree(named yamltree.Field, fields yamltree.Fields, kind string) {
	s := &f.server
	started := []string{"command", "args", "env", "cwd", "writable", "network"}
	switch {
	case (s.Command == "") == (s.URL == ""):
		f.fail(named.At, "%s: expected either a command or a url", s.Name)
	case kind != "" && (kind == "stdio") != (s.Command != ""):
		f.fail(named.At, "%s: the type %s has a %s", s.Name, kind, map[bool]string{true: "command", false: "url"}[kind == "stdio"])
	}
	for _, one := range fields {
		if s.URL != "" && slices.Contains(started, one.Key) || s.Command != "" && one.Key == "headers" {
			f.fail(one.At, "%s: a server with a %s has none", one.Key, map[bool]string{true: "url", false: "command"}[s.URL != ""])
		}
	}
}

// text returns a string without control characters.
func (f *serverReader) text(one yamltree.Field, node ast.Node) string {
	text, ok := yamltree.Text(node)
	switch {
	case !ok:
		f.fail(node, "%s: expected a string; put it in quotes if it is a string", one.Key)
	case len(text) > maxText || strings.ContainsFunc(text, unicode.IsControl):
		f.fail(node, "%s: expected at most %d bytes without control characters", one.Key, maxText)
	}
	return text
}

// expanded returns a string with ${NAME} replaced from the environment. Values from there are
// recorded as secrets.
func (f *serverReader) expanded(one yamltree.Field, node ast.Node) string {
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
			f.fail(node, "%s: expected ${NAME} with the name of a variable of the environment", one.Key)
			return ""
		}
		value, set := f.lookup(name)
		switch {
		case !set:
			f.fail(node, "%s: the variable %s is not set", one.Key, name)
		case len(value) > maxText || strings.ContainsFunc(value, unicode.IsControl):
			f.fail(node, "%s: the variable %s: expected at most %d bytes without control characters", one.Key, name, maxText)
		}
		f.server.secrets = append(f.server.secrets, value)
		out.WriteString(value)
		text = after
	}
}

var variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (f *serverReader) list(one yamltree.Field, item func(yamltree.Field, ast.Node) string) []string {
	list, ok := one.Value.(*ast.SequenceNode)
	if !ok {
		f.fail(one.Value, "%s: expected a list of strings", one.Key)
		return nil
	}
	texts := []string{}
	for _, node := range list.Values {
		texts = append(texts, item(one, node))
	}
	return texts
}

func (f *serverReader) env(one yamltree.Field) []string {
	fields, err := f.Fields(one.Value)
	if err != nil {
		f.fail(one.Value, "env: expected a mapping of names to strings, each name once")
	}
	var env []string
	for _, v := range fields {
		if !variablePattern.MatchString(v.Key) {
			f.fail(v.At, "env: expected the name of a variable, got %.100q", v.Key)
		}
		env = append(env, v.Key+"="+f.expanded(yamltree.Field{Key: "env " + v.Key}, v.Value))
	}
	return env
}

func (f *serverReader) directory(one yamltree.Field, node ast.Node) string {
	dir := f.expanded(one, node)
	if !filepath.IsAbs(dir) {
		f.fail(node, "%s: expected absolute paths", one.Key)
	}
	return filepath.Clean(dir)
}

func (f *serverReader) flag(one yamltree.Field) bool {
	value, ok := one.Value.(*ast.BoolNode)
	if !ok {
		f.fail(one.Value, "%s: expected true or false", one.Key)
		return false
	}
	return value.Value
}

func (f *serverReader) url(one yamltree.Field) string {
	known := len(f.server.secrets)
	u, err := outbound.ParseURL(f.expanded(one, one.Value))
	switch {
	case f.err != nil:
		return ""
	case err != nil && len(f.server.secrets) > known:
		f.fail(one.Value, "url: expected an http or https URL without a user once its variables are filled in")
		return ""
	case err != nil:
		f.fail(one.Value, "url: %v", err)
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

func (f *serverReader) headers(one yamltree.Field) []Header {
	fields, err := f.Fields(one.Value)
	if err != nil {
		f.fail(one.Value, "headers: expected a mapping of names to strings, each name once")
	}
	var headers []Header
	for _, v := range fields {
		value := f.expanded(yamltree.Field{Key: "headers " + v.Key}, v.Value)
		switch {
		case !httpguts.ValidHeaderFieldName(v.Key):
			f.fail(v.At, "headers: expected the name of a header, got %.100q", v.Key)
		case isProtocolHeader(v.Key):
			f.fail(v.At, "headers: %s is set by the protocol", v.Key)
		case !httpguts.ValidHeaderFieldValue(value):
			f.fail(v.At, "headers: the value of %s can't be sent", v.Key)
		}
		f.server.secrets = append(f.server.secrets, value)
		headers = append(headers, Header{v.Key, value})
	}
	return headers
}

func (f *serverReader) timeout(one yamltree.Field) time.Duration {
	text := f.text(one, one.Value)
	d, err := time.ParseDuration(text)
	if err != nil || d < minTimeout || d > maxTimeout {
		f.fail(one.Value, "timeout: expected a duration from %s to %s, such as 30s or 2m, got %.100q", minTimeout, maxTimeout, text)
	}
	return d
}

func (f *serverReader) glob(one yamltree.Field, node ast.Node) string {
	text := f.text(one, node)
	if _, err := path.Match(text, ""); err != nil || text == "" {
		f.fail(node, "%s: expected globs of the server's names for its tools, such as get_*", one.Key)
	}
	return text
}

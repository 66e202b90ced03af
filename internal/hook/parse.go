package hook

import (
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/yamltree"
)

// Size limits, in bytes.
const (
	maxFile = 256 << 10
	maxText = 4 << 10
)

// Load reads a file of hooks.
func Load(file string) ([]Spec, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the hooks: %w", err)
	}
	return Parse(file, data)
}

// Parse parses a YAML file whose only key is hooks. Errors start with "source:line: " and say
// what was expected there.
func Parse(source string, data []byte) ([]Spec, error) {
	r := reader{yamltree.Source{Name: source}}
	document, err := r.Parse(data, maxFile)
	if err != nil {
		return nil, err
	}
	fields, err := r.Fields(document, "hooks")
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return nil, r.Errorf(1, "expected the key hooks")
	}
	return r.specs(fields[0].Value, true)
}

// ParseList parses the list of hooks in an agent definition. These hooks are for that agent, so
// they have no matcher.
func ParseList(source yamltree.Source, list ast.Node) ([]Spec, error) {
	return reader{source}.specs(list, false)
}

// reader reads hooks.
type reader struct{ yamltree.Source }

// specs reads a list of hooks. With matchers, hooks may name agents, as in a worker's file.
func (r reader) specs(node ast.Node, matchers bool) ([]Spec, error) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		return nil, r.At(node, "hooks: expected a list of hooks")
	}
	if len(list.Values) > tree.MaxHooks {
		return nil, r.At(node, "hooks: expected at most %d, got %d", tree.MaxHooks, len(list.Values))
	}
	var specs []Spec
	names := map[string]bool{}
	for _, item := range list.Values {
		spec, err := r.spec(item, matchers)
		if err != nil {
			return nil, err
		}
		if names[spec.Name] {
			return nil, r.At(item, "name: %q is given twice", spec.Name)
		}
		names[spec.Name] = true
		specs = append(specs, spec)
	}
	return specs, nil
}

func (r reader) spec(node ast.Node, matchers bool) (Spec, error) {
	keys := []string{"name", "event", "command", "url", "timeout"}
	if matchers {
		keys = append(keys, "matcher")
	}
	fields, err := r.Fields(node, keys...)
	if err != nil {
		return Spec{}, err
	}
	f := fieldReader{reader: r, node: node, fields: fields}
	s := Spec{
		Name: f.text("name", checkName), Matcher: f.text("matcher", checkMatcher),
		URL: f.text("url", checkURL), Command: f.command(),
	}
	s.Event = events[f.text("event", checkEvent)]
	s.Timeout, _ = time.ParseDuration(f.text("timeout", checkTimeout)) // empty is 0
	switch {
	case f.err != nil:
	case s.Name == "":
		f.fail(nil, "name: missing, expected what the hook is called")
	case s.Event == tree.HookEventUnspecified:
		f.fail(nil, "event: missing, expected SubagentStart or SubagentStop")
	case (s.URL == "") == (len(s.Command) == 0):
		f.fail(nil, "expected either a command or a url")
	}
	return s, f.err
}

var events = map[string]tree.HookEvent{"SubagentStart": tree.SubagentStart, "SubagentStop": tree.SubagentStop}

// fieldReader reads the values of one hook. err is the first problem.
type fieldReader struct {
	reader
	node   ast.Node
	fields yamltree.Fields
	err    error
}

func (f *fieldReader) fail(node ast.Node, format string, args ...any) {
	if node == nil {
		node = f.node
	}
	if f.err == nil {
		f.err = f.At(node, format, args...)
	}
}

// text returns a string, or "" if the key is missing. check returns a problem, or "".
func (f *fieldReader) text(key string, check func(string) string) string {
	node := f.fields.Value(key)
	if node == nil {
		return ""
	}
	value, ok := yamltree.Text(node)
	if !ok {
		f.fail(node, "%s: expected a string; put it in quotes if it is a string", key)
		return ""
	}
	if wrong := check(value); wrong != "" {
		f.fail(node, "%s: %s, got %.100q", key, wrong, value)
	}
	return value
}

// command returns a program and its arguments, or nil if the key is missing.
func (f *fieldReader) command() []string {
	node := f.fields.Value("command")
	if node == nil {
		return nil
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		f.fail(node, "command: expected a list of the program and its arguments; to use a shell write [sh, -c, ...]")
		return nil
	}
	var command []string
	for _, item := range list.Values {
		word, ok := yamltree.Text(item)
		if !ok || strings.ContainsRune(word, 0) || len(word) > maxText {
			f.fail(item, "command: expected strings of at most %d bytes without NUL; put strings in quotes", maxText)
			return nil
		}
		command = append(command, word)
	}
	if len(command) == 0 || command[0] == "" {
		f.fail(node, "command: expected a program")
	}
	return command
}

// The checks of single values return what was expected, or "".

func checkName(s string) string {
	const limit = 64
	if s == "" || len(s) > limit || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Sprintf("expected a name: 1 to %d bytes that can be shown", limit)
	}
	return ""
}

func checkMatcher(s string) string {
	if _, err := path.Match(s, ""); err != nil || s == "" || len(s) > 200 || strings.ContainsFunc(s, unicode.IsControl) {
		return "expected a glob for the names of agents, such as explore or review-*"
	}
	return ""
}

func checkEvent(s string) string {
	if _, ok := events[s]; !ok {
		return "expected SubagentStart or SubagentStop"
	}
	return ""
}

func checkTimeout(s string) string {
	if d, err := time.ParseDuration(s); err != nil || d < minTimeout || d > maxTimeout {
		return fmt.Sprintf("expected a duration from %s to %s, such as 10s or 2m", minTimeout, maxTimeout)
	}
	return ""
}

func checkURL(s string) string {
	if ValidURL(s) {
		return ""
	}
	return "expected a URL such as https://hooks.example.com/stop, without a user"
}

// ValidURL reports whether a URL can be called: http or https, with a host, without a user, and
// only printable ASCII.
func ValidURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Opaque == "" &&
		len(s) <= maxText && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= unicode.MaxASCII })
}

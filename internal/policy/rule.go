package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Kind says how an argument is matched.
type Kind uint8

// The kinds of arguments.
const (
	KindText    Kind = iota // as it is: a name
	KindPath                // a clean, slash-separated path of the workspace
	KindCommand             // a shell command line
	KindURL                 // a normalised URL
)

// Call is a call to decide on.
type Call struct {
	Tool     string
	Access   Access
	Kind     Kind
	Argument string
}

// Rule matches calls. TOOL matches all calls of the tool; TOOL(GLOB) matches the calls whose
// argument matches the glob. TOOL may contain *, as in mcp__server__*, for which mcp__server is a
// short form. The zero Rule matches nothing.
type Rule struct {
	text        string
	tool        glob
	argument    glob
	hasArgument bool // there is a glob for the argument
}

// maxRule bounds the text of a rule in bytes.
const maxRule = 500

// Names of tools that other packages have to know, too.
const (
	TaskTool = "task" // it starts an agent
	BashTool = "bash" // it runs a command
)

// knownTools returns the tools that a rule may name. A worker need not have all of them.
func knownTools() []string {
	return []string{"ls", "glob", "grep", "read", "write", "edit", BashTool, "web_fetch", TaskTool, "task_output", "kill_task", "skill", "docs", "find_tools"}
}

// withoutArgument is the tool whose calls have no argument.
const withoutArgument = "find_tools"

// pathTools returns the known tools whose calls have a path as their argument.
func pathTools() []string { return []string{"ls", "glob", "grep", "read", "write", "edit"} }

// nextRules finds, in what should be a glob, the end of a rule and the tool of the next.
var nextRules = regexp.MustCompile(`\)\s*[,;]\s*([A-Za-z0-9_]+)\(`)

// isSeveral reports whether what should be a glob has further rules behind it. A glob of commands
// may look similar, but it names no tool.
func isSeveral(pattern string) bool {
	for _, next := range nextRules.FindAllStringSubmatch(pattern, -1) {
		if slices.Contains(knownTools(), next[1]) || strings.HasPrefix(next[1], MCPPrefix) {
			return true
		}
	}
	return false
}

// ParseRule parses a rule. A rule that names no tool, or whose glob is invalid, is an error.
func ParseRule(text string) (Rule, error) {
	r := Rule{text: text}
	if len(text) > maxRule {
		return Rule{}, fmt.Errorf("a rule has at most %d bytes, this one has %d", maxRule, len(text))
	}
	name, rest, narrow := strings.Cut(text, "(")
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-*") != "" || name == "" {
		return Rule{}, fmt.Errorf("%.100q is not a rule: expected TOOL or TOOL(GLOB), such as bash(git *)", text)
	}
	var err error
	if r.tool, err = parseGlob(expandEntry(name)); err != nil {
		return Rule{}, fmt.Errorf("the tool of the rule %.100q: %w", text, err)
	}
	if !r.namesATool(name) {
		return Rule{}, fmt.Errorf("the rule %.100q names no known tool: the tools are %s, and those of MCP servers, whose names begin with %s",
			text, strings.Join(knownTools(), ", "), MCPPrefix)
	}
	if !narrow {
		return r, nil
	}
	pattern, closed := strings.CutSuffix(rest, ")")
	if !closed || pattern == "" {
		return Rule{}, fmt.Errorf("%.100q is not a rule: expected a glob between the brackets, such as bash(git *)", text)
	}
	if isSeveral(pattern) {
		return Rule{}, fmt.Errorf("%.100q looks like several rules: give each on its own", text)
	}
	r.hasArgument = true
	if r.argument, err = parseGlob(pattern); err != nil {
		return Rule{}, fmt.Errorf("the glob of the rule %.100q: %w", text, err)
	}
	return r, nil
}

func (r Rule) namesATool(name string) bool {
	if strings.HasPrefix(name, MCPPrefix) {
		return true
	}
	for _, tool := range knownTools() {
		if r.tool.match(tool, false) {
			return true
		}
	}
	return false
}

// Check returns an error if the rule can match no call, because it has a glob for the argument of a
// tool that has none, or one that no clean path matches. Only new rules are checked: stored ones may be
// such rules, and do no harm.
func (r Rule) Check() error {
	name, _, _ := strings.Cut(r.text, "(")
	if !r.hasArgument || r.argument.match("", false) || EntriesOverlap(name, MCPPrefix+"*") {
		return nil
	}
	var why string
	for _, tool := range knownTools() {
		switch {
		case !r.tool.match(tool, false):
		case tool == withoutArgument:
			why = "a call of " + withoutArgument + " has no argument; use the name of the tool alone"
		case slices.Contains(pathTools(), tool) && !r.argument.matchesPaths():
			why = "the path of a call has no ./ at its beginning and no / at its end"
		default:
			return nil
		}
	}
	return fmt.Errorf("the rule %.100q matches nothing: %s", r.text, why)
}

// NewRules parses and checks a list of rules that someone has just written.
func NewRules(texts []string) ([]Rule, error) {
	rules, err := ParseRules(texts)
	for i := 0; i < len(rules) && err == nil; i++ {
		err = rules[i].Check()
	}
	return rules, err
}

// ParseRules parses a list of rules.
func ParseRules(texts []string) ([]Rule, error) {
	var rules []Rule
	for _, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func (r Rule) String() string { return r.text }

// MarshalText returns the rule as it was written.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.text), nil }

// UnmarshalText parses the rule.
func (r *Rule) UnmarshalText(text []byte) error {
	var err error
	*r, err = ParseRule(string(text))
	return err
}

// matchesWhole reports whether the rule matches everything that a call does, as is necessary to
// allow it. A command line has to be one plain command; the layer decides on several joined
// commands.
func (r Rule) matchesWhole(c Call) bool {
	switch {
	case !r.tool.match(c.Tool, false):
		return false
	case !r.hasArgument:
		return true
	case c.Kind == KindCommand:
		plain := commands(c.Argument)
		return len(plain) == 1 && r.argument.match(plain[0], false)
	case c.Kind == KindURL:
		return r.argument.matchesURL(c.Argument)
	}
	return r.argument.match(c.Argument, c.Kind == KindPath)
}

// matchesPart reports whether the rule matches a call or any part of it, which is enough to ask or
// to deny.
func (r Rule) matchesPart(c Call) bool {
	switch {
	case !r.tool.match(c.Tool, false):
		return false
	case !r.hasArgument:
		return true
	case c.Kind == KindURL:
		return r.argument.mayMatchURL(c.Argument)
	case c.Kind != KindCommand:
		return r.argument.match(c.Argument, c.Kind == KindPath)
	}
	m := newMatcher(r.argument)
	for part := range candidates(c.Argument) {
		if m.match(part) {
			return true
		}
	}
	return false
}

// covers reports whether the rule matches all calls of a tool.
func (r Rule) covers(tool string) bool { return !r.hasArgument && r.tool.match(tool, false) }

// maxCallName is how much of an argument a call name contains.
const maxCallName = 200

// digestMark precedes the digest in a call name.
const digestMark = "… sha256:"

// callName names one call that a mode asks about. Its syntax is not that of a rule, because the
// name of a call without an argument must not match all calls of the tool. A long argument is
// replaced by its beginning and its digest.
func callName(c Call) string {
	argument := c.Argument
	if len(argument) > maxCallName {
		sum := sha256.Sum256([]byte(argument))
		argument = excerpt.Head(argument, maxCallName) + digestMark + hex.EncodeToString(sum[:])
	}
	return c.Tool + "=" + argument
}

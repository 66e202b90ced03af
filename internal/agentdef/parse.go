package agentdef

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tree"
)

const (
	// fence is the line before and after the front matter.
	fence = "---"
	// maxSize bounds a definition, and maxFront its front matter, in bytes.
	maxSize  = 256 << 10
	maxFront = 8 << 10
	// maxPrefix is the part of maxFront that is reserved for the plugin name, which is added
	// later.
	maxPrefix = 65
	// maxIterations bounds max_iterations.
	maxIterations = 10_000
	// maxCompactAt bounds compact_at.
	maxCompactAt = 100_000_000
	// Bounds of the timeout.
	minTimeout = time.Second
	maxTimeout = 30 * 24 * time.Hour
)

// Parse reads a definition. It converts line ends to "\n" and removes blank lines around the
// prompt. Errors start with "source:line: " and say what was expected there.
func Parse(source string, data []byte) (*Definition, error) {
	front, body, err := split(source, data)
	if err != nil {
		return nil, err
	}
	f, err := parseFront(source, front)
	if err != nil {
		return nil, err
	}
	d := &Definition{
		Name:          f.text("name", checkName),
		Description:   strings.TrimSpace(f.text("description", checkDescription)),
		Model:         f.text("model", checkModel),
		Tools:         f.list("tools", checkTool),
		Spawns:        f.list("spawns", checkGlob),
		Skills:        f.list("skills", checkSkill),
		MaxIterations: f.number("max_iterations", maxIterations),

		ForkContext: f.flag("fork_context"),
		CompactAt:   f.number("compact_at", maxCompactAt),

		DisallowedTools: f.list("disallowed_tools", checkTool),
		DeferredTools:   f.list("deferred_tools", checkTool),
		FailOnInterrupt: f.text("on_interrupt", checkInterrupt) == interruptFail,
		Background:      f.flag("background"),
		Worktree:        f.text("isolation", checkIsolation) == isolationWorktree,
		Reminder:        strings.TrimSpace(f.text("reminder", checkReminder)),

		Permissions: f.permissions(),
		Hooks:       f.hooks("hooks"),
		OnComplete:  f.text("on_complete", checkCallback),

		Prompt: body,
		Source: source,
	}
	d.Mode, _ = parseMode(f.text("mode", checkMode))
	d.Timeout, _ = time.ParseDuration(f.text("timeout", checkTimeout)) // empty is 0
	f.require("name", "description", "mode")
	d.checkConsistency(f)
	if f.err != nil {
		return nil, f.err
	}
	d.unfit = f.unfit
	d.Version = d.digest()
	return d, nil
}

// Fits returns an error if a new definition has a rule that matches nothing, or if its canonical
// text cannot be parsed again: its strings are quoted and may be longer, and a plugin name may be
// added.
func (d *Definition) Fits() error {
	if d.unfit != "" {
		return errors.New(d.unfit)
	}
	most := maxFront
	if !d.OfPlugin() {
		most -= maxPrefix
	}
	if n := len(d.frontMatterText()); n > most {
		return problemAt(d.Source, 1, "expected at most %d bytes of front matter after its texts are quoted, got %d", most, n)
	}
	return nil
}

// checkConsistency reports keys that contradict each other.
func (d *Definition) checkConsistency(f *frontMatter) {
	if len(d.Spawns) > 0 && !d.Allows(policy.TaskTool) {
		f.fail("spawns", "expected %q among the tools: an agent without it cannot spawn agents", policy.TaskTool)
	}
	for _, name := range d.DisallowedTools {
		if slices.Contains(d.Tools, name) {
			f.fail("disallowed_tools", "%q is also in tools; list it in only one of the two", name)
		}
	}
	for _, name := range d.DeferredTools {
		if !d.MayUse(name) {
			f.fail("deferred_tools", "%q is not among the tools that the agent may use", name)
		}
	}
	for _, name := range d.Permissions.Background {
		if !d.MayUse(name) {
			f.fail("background_tools", "%q is not one of the tools of the agent", name)
		}
	}
	if d.Mode == tree.ModePrimary && d.Background {
		f.fail("background", "the key requires an agent that can be spawned, but mode is %s", d.Mode)
	}
	if d.Mode == tree.ModePrimary && d.Worktree {
		f.fail("isolation", "the key requires an agent that can be spawned, but mode is %s", d.Mode)
	}
}

// split separates front matter and prompt.
func split(source string, data []byte) (front, body string, err error) {
	switch {
	case len(data) > maxSize:
		return "", "", problemAt(source, 1, "expected at most %d bytes, got %d", maxSize, len(data))
	case !utf8.Valid(data):
		return "", "", problemAt(source, lineOf(data, firstInvalid(data)), "expected text in UTF-8")
	case bytes.IndexByte(data, 0) >= 0:
		return "", "", problemAt(source, lineOf(data, bytes.IndexByte(data, 0)), "expected text without NUL characters")
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	lines := strings.SplitAfter(text, "\n")
	if !isFence(lines[0]) {
		return "", "", problemAt(source, 1, "expected %q at the start of the front matter", fence)
	}
	end := 1
	for end < len(lines) && !isFence(lines[end]) {
		end++
	}
	if end == len(lines) {
		return "", "", problemAt(source, end, "expected %q at the end of the front matter", fence)
	}
	front = strings.Join(lines[1:end], "")
	if len(front) > maxFront {
		return "", "", problemAt(source, 1, "expected at most %d bytes of front matter, got %d", maxFront, len(front))
	}
	body = strings.TrimRightFunc(strings.Join(lines[end+1:], ""), unicode.IsSpace)
	body = strings.TrimLeft(body, "\n")
	if body == "" {
		return "", "", problemAt(source, len(lines), "expected the prompt after the front matter")
	}
	return front, body, nil
}

func isFence(line string) bool { return strings.TrimRight(line, " \t\n") == fence }

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

func lineOf(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }

func problemAt(source string, line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", source, line, fmt.Sprintf(format, args...))
}

// The checks of single values return what was expected, or "".

var namePattern = regexp.MustCompile(`^([a-z0-9][a-z0-9_-]{0,63}:)?[a-z0-9][a-z0-9_-]{0,63}$`)

func checkName(s string) string {
	if namePattern.MatchString(s) {
		return ""
	}
	return "expected 1 to 64 of a-z, 0-9, _ and -, the first a letter or digit"
}

func checkSkill(s string) string {
	if wrong := checkName(s); wrong != "" {
		return "expected the name of a skill: " + strings.TrimPrefix(wrong, "expected ")
	}
	return ""
}

func checkReminder(s string) string {
	const limit = 4000
	if strings.TrimSpace(s) == "" || len(s) > limit || strings.ContainsFunc(s, isControl) {
		return fmt.Sprintf("expected a text of at most %d bytes without control characters", limit)
	}
	return ""
}

func checkDescription(s string) string {
	const limit = 4000
	switch {
	case strings.TrimSpace(s) == "":
		return "expected a sentence on when to use the agent"
	case len(s) > limit:
		return fmt.Sprintf("expected at most %d bytes", limit)
	case strings.ContainsFunc(s, isControl):
		return "expected text without control characters"
	}
	return ""
}

func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

func checkMode(s string) string {
	if _, ok := parseMode(s); ok {
		return ""
	}
	return fmt.Sprintf("expected %s, %s or %s", tree.ModePrimary, tree.ModeSubagent, tree.ModeBoth)
}

// Values of on_interrupt.
const (
	interruptResume = "resume"
	interruptFail   = "fail"
)

func checkInterrupt(s string) string {
	if s == interruptResume || s == interruptFail {
		return ""
	}
	return fmt.Sprintf("expected %s or %s", interruptResume, interruptFail)
}

// isolationWorktree is the only value of isolation.
const isolationWorktree = "worktree"

func checkIsolation(s string) string {
	if s == isolationWorktree {
		return ""
	}
	return "expected " + isolationWorktree + "; omit the key if the agent works in the directory of its parent"
}

func checkTimeout(s string) string {
	if d, err := time.ParseDuration(s); err != nil || d < minTimeout || d > maxTimeout {
		return fmt.Sprintf("expected a duration from %s to %s, such as 90s or 2h30m", minTimeout, maxTimeout)
	}
	return ""
}

func checkModel(s string) string {
	const limit = 200
	if s == "" || len(s) > limit || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		return fmt.Sprintf("expected the name of a model: 1 to %d bytes without spaces", limit)
	}
	return ""
}

func checkTool(s string) string {
	if err := policy.CheckEntry(s); err != nil {
		return err.Error()
	}
	return ""
}

func checkGlob(s string) string {
	if _, err := path.Match(s, ""); err != nil || s == "" || len(s) > 200 || strings.ContainsFunc(s, unicode.IsControl) {
		return "expected a glob for the names of agents, such as explore or review-*"
	}
	return ""
}

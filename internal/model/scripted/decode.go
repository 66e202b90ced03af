package scripted

import (
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/yamltree"
)

// Parse parses a scenario. Errors name the file as name, and the line with what was expected
// there. Parse checks every template, pattern and number.
func Parse(name string, data []byte) (*Scenario, error) {
	source := yamltree.Source{Name: name}
	root, err := document(source, data)
	if err != nil {
		return nil, err
	}
	r := reader{source}
	s := &Scenario{source: source, model: "scripted", vars: map[string]*snippet{}}
	var steps ast.Node
	err = r.object(root, "a scenario", fields{
		"about":  func(n ast.Node) (err error) { s.About, _, err = r.text(n, "text about the scenario"); return err },
		"model":  func(n ast.Node) (err error) { s.model, err = r.name(n, "the name of the model"); return err },
		"stream": func(n ast.Node) (err error) { s.stream, err = r.stream(n); return err },
		"vars":   func(n ast.Node) error { return r.vars(n, s.vars) },
		"steps":  func(n ast.Node) error { steps = n; return nil },
	})
	if err != nil {
		return nil, err
	}
	const wantSteps = `a scenario needs "steps", a list of what the model answers`
	if steps == nil {
		return nil, r.At(root, wantSteps)
	}
	err = r.each(steps, "steps", func(n ast.Node) error {
		step, err := r.step(n, s.stream)
		s.steps = append(s.steps, step)
		return err
	})
	if err == nil && len(s.steps) == 0 {
		err = r.At(steps, wantSteps+"; it is empty")
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (r reader) vars(n ast.Node, vars map[string]*snippet) error {
	given, err := r.mapping(n, "a mapping of names to expressions")
	if err != nil {
		return err
	}
	for _, p := range given {
		if vars[p.Key], err = r.expression(p.Value, "var "+p.Key); err != nil {
			return err
		}
	}
	return nil
}

func (r reader) step(n ast.Node, pace stream) (*step, error) {
	s := &step{stream: pace, line: yamltree.Line(n)}
	answers := false
	err := r.object(n, "a step", fields{
		"when":     func(n ast.Node) (err error) { s.when, err = r.condition(n); return err },
		"delay":    func(n ast.Node) (err error) { s.delay, err = r.delay(n); return err },
		"thinking": func(n ast.Node) (err error) { s.thinking, err = r.template(n, "thinking"); return err },
		"text":     func(n ast.Node) (err error) { s.text, err = r.template(n, "text"); return err },
		"stream":   func(n ast.Node) (err error) { s.stream, err = r.stream(n); return err },
		"usage":    func(n ast.Node) (err error) { s.usage, err = r.usage(n); answers = true; return err },
		"stop":     func(n ast.Node) (err error) { s.stop, err = r.stop(n); answers = true; return err },
		"error":    func(n ast.Node) (err error) { s.failure, err = r.failure(n); return err },
		"calls": func(n ast.Node) error {
			return r.each(n, "calls", func(n ast.Node) error {
				c, err := r.call(n)
				s.calls = append(s.calls, c)
				return err
			})
		},
	})
	if err != nil {
		return nil, err
	}
	if s.failure != nil && (answers || len(s.calls) > 0) {
		return nil, r.Errorf(s.line, `a step with "error" has no answer: leave out "calls", "usage" and "stop"`)
	}
	if s.failure == nil && s.text == nil && len(s.calls) == 0 {
		return nil, r.Errorf(s.line, `a step answers with "text", "calls" or "error"; this one has none of them`)
	}
	return s, nil
}

func (r reader) condition(n ast.Node) (condition, error) {
	var c condition
	err := r.object(n, "when", fields{
		"agent":      func(n ast.Node) (err error) { c.agent, err = r.glob(n); return err },
		"model":      func(n ast.Node) (err error) { c.model, err = r.glob(n); return err },
		"depth":      func(n ast.Node) (err error) { c.depth, err = r.span(n); return err },
		"turn":       func(n ast.Node) (err error) { c.turn, err = r.span(n); return err },
		"since_user": func(n ast.Node) (err error) { c.sinceUser, err = r.span(n); return err },
		"prompt":     func(n ast.Node) (err error) { c.prompt, err = r.pattern(n); return err },
		"last":       func(n ast.Node) (err error) { c.last, err = r.pattern(n); return err },
		"if":         func(n ast.Node) (err error) { c.test, err = r.expression(n, "if"); return err },
	})
	if err != nil {
		return condition{}, err
	}
	c.groups = map[string]int{}
	for _, re := range []*regexp.Regexp{c.prompt, c.last} {
		if re == nil {
			continue
		}
		for i, name := range re.SubexpNames() {
			if _, twice := c.groups[name]; twice {
				return condition{}, r.At(n, "the group %q is there twice; expected names that differ", name)
			}
			if name != "" {
				c.groups[name] = c.allGroups + i
			}
		}
		c.allGroups += re.NumSubexp()
	}
	return c, nil
}

func (r reader) call(n ast.Node) (call, error) {
	c := call{input: object{}}
	err := r.object(n, "a call", fields{
		"tool":     func(n ast.Node) (err error) { c.tool, err = r.template(n, "tool"); return err },
		"for_each": func(n ast.Node) (err error) { c.forEach, err = r.expression(n, "for_each"); return err },
		"input":    func(n ast.Node) (err error) { c.input, err = r.inputOf(n); return err },
	})
	if err == nil && c.tool == nil {
		err = r.At(n, `a call needs "tool", the name of the tool`)
	}
	return c, err
}

func (r reader) failure(n ast.Node) (*failure, error) {
	f := &failure{}
	kinds := map[string]model.ErrorKind{
		"rate_limited": model.ErrorRateLimited, "overloaded": model.ErrorOverloaded,
		"broken": model.ErrorBroken, "invalid": model.ErrorInvalid, "auth": model.ErrorAuth,
	}
	err := r.object(n, "error", fields{
		"kind": func(n ast.Node) error {
			name, _, err := r.text(n, "the kind of error")
			if f.kind = kinds[name]; err == nil && f.kind == model.ErrorUnspecified {
				err = r.At(n, "%q is no kind of error; expected rate_limited, overloaded, broken, invalid or auth", name)
			}
			return err
		},
		"message":     func(n ast.Node) (err error) { f.message, err = r.template(n, "message"); return err },
		"retry_after": func(n ast.Node) (err error) { f.retryAfter, err = r.duration(n); return err },
		"times":       func(n ast.Node) (err error) { f.times, err = r.whole(n, "how often to fail", 1); return err },
	})
	if err == nil && f.kind == model.ErrorUnspecified {
		err = r.At(n, `an error needs "kind"`)
	}
	return f, err
}

func (r reader) stream(n ast.Node) (stream, error) {
	var s stream
	err := r.object(n, "stream", fields{
		"chunk": func(n ast.Node) (err error) {
			s.chunk, err = r.whole(n, "how many characters come at once", 1)
			return err
		},
		"every": func(n ast.Node) (err error) { s.every, err = r.duration(n); return err },
	})
	return s, err
}

func (r reader) usage(n ast.Node) (usage, error) {
	var u usage
	count := func(into **int64) func(ast.Node) error {
		return func(n ast.Node) error {
			tokens, err := r.whole(n, "a number of tokens", 0)
			wide := int64(tokens)
			*into = &wide
			return err
		}
	}
	err := r.object(n, "usage", fields{
		"input": count(&u.input), "output": count(&u.output),
		"cache_read": count(&u.cacheRead), "cache_write": count(&u.cacheWrite),
	})
	return u, err
}

func (r reader) stop(n ast.Node) (tree.StopReason, error) {
	name, _, err := r.text(n, "a stop reason")
	if err != nil {
		return tree.StopUnspecified, err
	}
	switch name {
	case "end_turn":
		return tree.StopEndTurn, nil
	case "tool_use":
		return tree.StopToolUse, nil
	case "max_tokens":
		return tree.StopMaxTokens, nil
	case "refusal":
		return tree.StopRefusal, nil
	}
	return tree.StopUnspecified, r.At(n, "%q is no stop reason; expected end_turn, tool_use, max_tokens or refusal", name)
}

// span parses "3", "2..4", "2.." or "..4".
func (r reader) span(n ast.Node) (span, error) {
	if _, ok := n.(*ast.IntegerNode); ok {
		v, err := r.whole(n, "a number", 0)
		return span{&v, &v}, err
	}
	const want = `a number such as 3 or a range such as "2..4", "2.." or "..4"`
	text, _, err := r.text(n, want)
	if err != nil {
		return span{}, err
	}
	var s span
	low, high, ranged := strings.Cut(text, "..")
	if !ranged || text == ".." {
		return span{}, r.At(n, "expected %s, got %q", want, text)
	}
	for _, end := range []struct {
		text string
		into **int
	}{{low, &s.from}, {high, &s.to}} {
		if end.text == "" {
			continue
		}
		v, err := strconv.Atoi(end.text)
		if err != nil || v < 0 || v > maxNumber {
			return span{}, r.At(n, "expected %s, got %q", want, text)
		}
		*end.into = &v
	}
	if s.from != nil && s.to != nil && *s.from > *s.to {
		return span{}, r.At(n, "the range %q is empty; expected the lower number first", text)
	}
	return s, nil
}

func (r reader) name(n ast.Node, what string) (string, error) {
	text, _, err := r.text(n, what)
	if err == nil && text == "" {
		err = r.At(n, "expected %s, got an empty text", what)
	}
	return text, err
}

func (r reader) glob(n ast.Node) (string, error) {
	text, err := r.name(n, "a name or a glob")
	if err != nil {
		return "", err
	}
	if _, err := path.Match(text, ""); err != nil {
		return "", r.At(n, "expected a name or a glob, got %q: %v", text, err)
	}
	return text, nil
}

func (r reader) pattern(n ast.Node) (*regexp.Regexp, error) {
	text, _, err := r.text(n, "a regular expression")
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, r.At(n, "expected a regular expression (RE2): %v", err)
	}
	return re, nil
}

const wantDuration = `a duration such as "250ms" or "2s"`

func (r reader) duration(n ast.Node) (time.Duration, error) {
	text, _, err := r.text(n, wantDuration)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, r.At(n, "expected %s, got %q", wantDuration, text)
	}
	return d, nil
}

// delay reads a duration, or a template that produces one.
func (r reader) delay(n ast.Node) (*snippet, error) {
	s, err := r.template(n, "delay")
	if err == nil && s.parsed == nil {
		_, err = r.duration(n)
	}
	return s, err
}

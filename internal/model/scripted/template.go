package scripted

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/goccy/go-yaml/ast"

	"github.com/coppice-run/coppice/internal/model"
)

// maxText bounds, in bytes, the output of a template, and every value that it computes.
const maxText = 1 << 20

// errTooLong ends a template that exceeds maxText.
var errTooLong = fmt.Errorf("the template makes more than %d bytes", maxText)

// snippet is a parsed template or expression of a scenario.
type snippet struct {
	file   string
	line   int    // first line of its text
	name   string // description, for errors
	plain  string // the text, if parsed is nil
	parsed *template.Template
}

// template reads a text with {{ }} in it.
func (r reader) template(n ast.Node, name string) (*snippet, error) {
	text, first, err := r.text(n, name+", a text")
	if err != nil {
		return nil, err
	}
	if !strings.Contains(text, "{{") {
		return &snippet{file: r.Name, line: first, name: name, plain: text}, nil
	}
	return r.snippet(first, name, text)
}

// expression reads the content of a {{ }}, which has a value.
func (r reader) expression(n ast.Node, name string) (*snippet, error) {
	text, first, err := r.text(n, name+", an expression")
	if err != nil {
		return nil, err
	}
	return r.snippet(first, name, "{{yield ("+text+")}}")
}

func (r reader) snippet(first int, name, text string) (*snippet, error) {
	s := &snippet{file: r.Name, line: first, name: name}
	parsed, err := template.New(name).Option("missingkey=error").Funcs(functions()).Parse(text)
	if err != nil {
		return nil, s.fail(err)
	}
	if len(parsed.Templates()) > 1 {
		return nil, r.Errorf(first, "%s: define and block have no place in a scenario; use vars", name)
	}
	s.parsed = parsed
	return s, nil
}

// fail adds file and line to an error of text/template, which counts lines only within the
// snippet.
func (s *snippet) fail(err error) error {
	at, text := s.line, err.Error()
	if rest, ok := strings.CutPrefix(text, "template: "+s.name+":"); ok {
		number, after, _ := strings.Cut(rest, ":")
		if n, convErr := strconv.Atoi(number); convErr == nil {
			at += n - 1
			text = strings.TrimSpace(strings.TrimLeft(after, "0123456789:"))
		}
	}
	return &scriptError{at: fmt.Sprintf("%s:%d", s.file, at), what: s.name, text: inScenarioTerms(text), err: err}
}

// unknownField matches what text/template says of a field that a value does not have. It has no
// error type for that.
var unknownField = regexp.MustCompile(`can't evaluate field (\w+) in type (.+)$`)

// inScenarioTerms replaces the name of a Go type in an error by the fields that there are.
func inScenarioTerms(text string) string {
	return unknownField.ReplaceAllStringFunc(text, func(found string) string {
		parts := unknownField.FindStringSubmatch(found)
		if parts[2] == reflect.TypeFor[*templateData]().String() {
			return fmt.Sprintf(".%s is no field; expected one of %s", parts[1], fieldNames(reflect.TypeFor[templateData]()))
		}
		// The type is often that of the list that the value is from, which says nothing.
		return fmt.Sprintf("the value has no .%s; a result has %s", parts[1], fieldNames(reflect.TypeFor[result]()))
	})
}

// fieldNames lists the fields of a struct as a template writes them.
func fieldNames(of reflect.Type) string {
	var names []string
	for _, f := range reflect.VisibleFields(of) {
		names = append(names, "."+f.Name)
	}
	return strings.Join(names, ", ")
}

// scriptError is an error in a snippet.
type scriptError struct {
	at, what, text string
	err            error
}

func (e *scriptError) Error() string { return e.at + ": " + e.what + ": " + e.text }

func (e *scriptError) Unwrap() error { return e.err }

// invalid returns the error for a scenario that cannot answer. A retry would not help.
func invalid(err error) error {
	return &model.Error{Kind: model.ErrorInvalid, Err: err}
}

// render returns the output of a template, or "" for nil.
func (v *view) render(s *snippet, d *templateData) (string, error) {
	if s == nil {
		return "", nil
	}
	if s.parsed == nil {
		return s.plain, nil
	}
	out := &output{ended: v.ended}
	if err := v.execute(s, d, out); err != nil {
		return "", err
	}
	return out.text.String(), nil
}

// value returns the value of an expression.
func (v *view) value(s *snippet, d *templateData) (any, error) {
	if err := v.execute(s, d, &output{ended: v.ended}); err != nil {
		return nil, err
	}
	return v.yielded, nil
}

func (v *view) execute(s *snippet, d *templateData, out *output) error {
	bound, ok := v.bound[s]
	if !ok {
		clone, err := s.parsed.Clone()
		if err != nil {
			return s.fail(err)
		}
		bound = clone.Funcs(v.functions())
		v.bound[s] = bound
	}
	if err := bound.Execute(out, d); err != nil {
		var inner *scriptError
		if errors.As(err, &inner) { // the error in a var has the more precise place
			return inner
		}
		return s.fail(err)
	}
	return nil
}

// output collects the output of a template. It fails when it would exceed maxText, or when the
// context has ended.
type output struct {
	ended func() error
	text  strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	if err := o.ended(); err != nil {
		return 0, err
	}
	if o.text.Len()+len(p) > maxText {
		return 0, errTooLong
	}
	return o.text.Write(p)
}

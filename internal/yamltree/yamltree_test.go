package yamltree_test

import (
	"errors"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/coppice-run/coppice/internal/yamltree"
)

func parse(t *testing.T, text string) ast.Node {
	t.Helper()
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		t.Fatal(err)
	}
	return file.Docs[0].Body
}

func TestFields(t *testing.T) {
	t.Parallel()
	fields, err := yamltree.Source{Name: "x"}.Fields(parse(t, "b: 1\na: |\n  text\n"), "a", "b")
	if err != nil || len(fields) != 2 || fields[0].Key != "b" || fields[1].Key != "a" || yamltree.Line(fields[1].At) != 2 {
		t.Fatalf("got %+v, %v", fields, err)
	}
	if text, ok := yamltree.Text(fields.Value("a")); !ok || text != "text\n" {
		t.Errorf("a is %q, %t", text, ok)
	}
	if text, ok := yamltree.Text(fields.Value("b")); ok {
		t.Errorf("a number is the text %q", text)
	}
	if fields.Value("c") != nil {
		t.Error("a missing key has a value")
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	within := yamltree.Source{Name: "x", Before: 10}
	known := func(text string) error {
		_, err := within.Fields(parse(t, text), "a", "b")
		return err
	}
	anyKey := func(text string) error {
		_, err := within.Fields(parse(t, text))
		return err
	}
	_, syntax := parser.ParseBytes([]byte("a:\n  [b\n"), 0)
	var decoded struct{ A []int }
	strict := yaml.UnmarshalWithOptions([]byte("a: []\nb: 1\n"), &decoded, yaml.Strict())
	for want, err := range map[string]error{
		"x:12: unknown key c, expected one of a, b":                                                                   known("a: 1\nc: 2\n"),
		"x:11: unknown key 5, expected one of a, b":                                                                   known("5: a"),
		"x:11: unknown key <<, expected one of a, b":                                                                  known("<<: {a: 1}"),
		"x:12: expected a mapping with the keys a, b, got a list":                                                     known("\n- a\n"),
		"x:11: expected a mapping with the keys a, b, got nothing":                                                    known(""),
		"x:11: expected a mapping with the keys a, b, got something else (anchors, aliases and tags are not allowed)": known("&x {a: 1}"),
		"x:11: expected a mapping, got a number":                                                                      anyKey("5.5"),
		`x:11: expected a name as the key, got "true"`:                                                                anyKey("true: a"),
		"x:12: sequence end token ']' not found":                                                                      within.Syntax(syntax),
		`x:12: unknown field "b"`:                                                                                     within.Syntax(strict),
		"x:11: another problem":                                                                                       within.Syntax(errors.New("another problem")),
		"x: 5 of all":                                                                                                 within.Errorf(0, "%d of all", 5),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

// TestLine: a mapping starts with its first key, not with the colon after it.
func TestLine(t *testing.T) {
	t.Parallel()
	list, ok := parse(t, "- a\n- ? b\n  : c\n- {d: e}\n- |\n  f\n").(*ast.SequenceNode)
	if !ok {
		t.Fatal("expected a list")
	}
	for i, want := range []int{1, 2, 4, 5} {
		if got := yamltree.Line(list.Values[i]); got != want {
			t.Errorf("%s begins on line %d, want %d", list.Values[i], got, want)
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, fits := range map[string]bool{
		"a: [1]": true, "---\na: [1]\n": true, "\ufeffa: [1]\n...\n": true, "a: [1]\n---\n": true, "a: [1]\n---\n# none\n---\n": true,
		"a: [1]\n---\na: [2]\n": false, "a: [1]\n---\n[\n": false, "a: [1]\nb: 1\n": false,
	} {
		var file struct{ A []int }
		if err := yamltree.Decode([]byte(text), &file); (err == nil) != fits || fits && (len(file.A) != 1 || file.A[0] != 1) {
			t.Errorf("%q: %v, %v", text, file.A, err)
		}
	}
	var file struct{ A []int }
	if err := yamltree.Decode([]byte("# nothing\n"), &file); err != nil || file.A != nil {
		t.Errorf("without a document: %v, %v", file.A, err)
	}
}

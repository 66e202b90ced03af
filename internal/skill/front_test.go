package skill

import (
	"fmt"
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	t.Parallel()
	for front, want := range map[string]string{
		"":                             "front matter",
		"name: a\ndescription: b c":    "a|b c",
		"name: 12\ndescription: true":  "12|true",
		"name: 'a: b'\ndescription: ~": "a: b|",
		"name: a\ndescription: |\n  b\n  c\nmetadata: {x: [1]}": "a|b\nc\n",
		"name: a\ndescription: >\n  b\n  c\n":                   "a|b c\n",
		"x: &x a\nname: *x":                                     "name: expected a text, got alias",
		"name: &x a":                                            "name: expected a text, got anchor",
		"name: [a]":                                             "name: expected a text, got sequence",
		"- name":                                                "lines of the form key: value",
		"name: [a":                                              "not found",
		"a: " + strings.Repeat("x", maxFront):                   "at most 8192 are read",
	} {
		found, err := stringFields(front, "name", "description")
		got := found["name"] + "|" + found["description"]
		if err != nil {
			got = err.Error()
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%.60q: %q, want %q", front, got, want)
		}
	}
}

// TestNestedFrontMatter is refused before it is parsed, which takes long.
func TestNestedFrontMatter(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"[", "{", "- ", "{a: ", "[a: ", "a: ", "? ", "&a "} {
		front := strings.Repeat(part, maxFront/len(part))
		if _, err := stringFields(front, "name"); err == nil || !strings.Contains(err.Error(), "at most 1000 are read") {
			t.Errorf("%s: %v", part, err)
		}
	}
}

// TestHostileFrontMatter: decoding these would take longer than anybody waits.
func TestHostileFrontMatter(t *testing.T) {
	t.Parallel()
	var merged strings.Builder
	merged.WriteString("a0: &a0 {k: v}\n")
	for n := range 20 {
		fmt.Fprintf(&merged, "a%d: &a%d {<<: [%s]}\n", n+1, n+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", n), 10), ","))
	}
	merged.WriteString("<<: *a20\nname: merged\n")
	nested := strings.Repeat("- ", maxFront/2)
	if found, err := stringFields(merged.String(), "name"); err != nil || found["name"] != "merged" {
		t.Errorf("merge keys: %v, %v", found, err)
	}
	if found, err := stringFields(nested, "name"); err == nil {
		t.Errorf("nested lists: %v", found)
	}
}

package tool

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestDocs(t *testing.T) {
	t.Parallel()
	docs := NewDocs(fstest.MapFS{
		"README.md":      {Data: []byte("# The program\n\nIt has flags.\n")},
		"docs/flags.md":  {Data: []byte("# Flags\n\n--slots is a flag.\n" + strings.Repeat("more\n", 10_000))},
		"proto/a.proto":  {Data: []byte("syntax = \"proto3\";\n\npackage a;\n\n// A is a service.\nservice A {}\n")},
		"docs/empty.md":  {Data: nil},
		"docs/marks.txt": {Data: []byte("a\nb\n")},
	})
	answers(t, docs, map[string]string{
		`{}`:                                   "README.md: The program\ndocs/empty.md: \ndocs/flags.md: Flags\ndocs/marks.txt: a\nproto/a.proto: A is a service.",
		`{"page":"README.md"}`:                 "     1\t# The program\n     2\t\n     3\tIt has flags.",
		`{"page":"README.md","offset":3}`:      "     3\tIt has flags.",
		`{"page":"README.md","offset":4}`:      "(error) offset: the page has only 3 lines",
		`{"page":"../README.md"}`:              `(error) there is no page "../README.md"; there are: README.md, docs/empty.md`,
		`{"search":"FLAG"}`:                    "README.md:3: It has flags.\ndocs/flags.md:1: # Flags\ndocs/flags.md:3: --slots is a flag.",
		`{"search":"flag","page":"README.md"}`: "README.md:3: It has flags.",
		`{"search":"flag  --SLOTS"}`:           "docs/flags.md:3: --slots is a flag.",
		`{"search":"flag nowhere"}`:            "No line contains that; search for fewer words",
		`{"search":" "}`:                       "README.md: The program",
		`{"search":"nowhere"}`:                 "No line contains that",
		`{"search":"more"}`:                    "[cut: there are more such lines",
		`{"page":"docs/flags.md"}`:             "[cut: the page goes on; continue with offset ",
		`{"topic":"flags"}`:                    `(error) wrong input: unknown field "topic"`,
	})
}

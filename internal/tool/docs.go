package tool

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
)

//go:embed docs.md
var docsProse string

var docsSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "page": {"type": "string", "maxLength": 200, "description": "The page to show, as the list names it."},
    "search": {"type": "string", "maxLength": 200, "description": "Words that a line has to contain, all of them."},
    "offset": {"type": "integer", "minimum": 1, "description": "The number of the first line wanted. Default: 1."}
  },
  "additionalProperties": false
}`)

// DocsTool is the name of the tool that [NewDocs] returns. Only a definition that names it has it.
const DocsTool = "docs"

// maxDocsText bounds the name of a page and what is searched for, in characters.
const maxDocsText = 200

type docsTool struct{ pages fs.FS }

// NewDocs returns the tool that reads the documentation of Coppice.
func NewDocs(pages fs.FS) Tool { return docsTool{pages} }

func (docsTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: DocsTool, Description: docsProse, Schema: docsSchema}
}

func (docsTool) Effect() Effect { return EffectNone }

// Check: see [Checked].
func (docsTool) Check(call Call) error {
	_, _, _, err := parseDocs(call.Input)
	return err
}

func (t docsTool) Call(_ context.Context, call Call) Outcome {
	page, search, offset, err := parseDocs(call.Input)
	if err != nil {
		return failed(err)
	}
	names, err := t.pageNames()
	switch {
	case err != nil:
		return failed(err)
	case page != "" && !slices.Contains(names, page):
		return failed(fmt.Errorf("there is no page %q; there are: %s", page, strings.Join(names, ", ")))
	case search != "" && page != "":
		return result(t.search([]string{page}, search))
	case search != "":
		return result(t.search(names, search))
	case page != "":
		return result(t.show(page, offset))
	}
	return result(t.list(names))
}

func parseDocs(raw json.RawMessage) (page, search string, offset int, err error) {
	in := newInput(raw)
	page, search = in.optional("page", "", maxDocsText), strings.TrimSpace(in.optional("search", "", maxDocsText))
	offset = int(in.number("offset", 1, 1, math.MaxInt32))
	return page, search, offset, in.err()
}

// pageNames lists the pages.
func (t docsTool) pageNames() ([]string, error) {
	var names []string
	err := fs.WalkDir(t.pages, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// list returns the pages with their titles. The title is the first meaningful line.
func (t docsTool) list(names []string) (string, error) {
	var out listing
	for _, name := range names {
		title := ""
		err := t.eachLine(name, func(_ int, line string) bool {
			line = strings.Trim(line, "#/ ")
			if line != "" && !strings.HasPrefix(line, "syntax") && !strings.HasPrefix(line, "import") &&
				!strings.HasPrefix(line, "package") && !strings.HasPrefix(line, "option") {
				title = line
			}
			return title == ""
		})
		if err != nil {
			return "", err
		}
		if !out.add(fmt.Sprintf("%s: %s", name, title)) {
			break
		}
	}
	return out.textOr("No pages"), nil
}

func (t docsTool) show(page string, offset int) (string, error) {
	var out listing
	last, cut := 0, false
	err := t.eachLine(page, func(number int, line string) bool {
		last = number
		cut = number >= offset && !out.add(fmt.Sprintf("%6d\t%s", number, line))
		return !cut
	})
	switch {
	case err != nil:
		return "", err
	case cut:
		out.noteCut("the page goes on; continue with offset %d", last)
	case out.lines == 0:
		return "", fmt.Errorf("offset: the page has only %d lines", last)
	}
	return out.textOr(""), nil
}

// search returns the lines that contain all words.
func (t docsTool) search(names []string, text string) (string, error) {
	var out listing
	words := strings.Fields(strings.ToLower(text))
	full := false
	for _, name := range names {
		err := t.eachLine(name, func(number int, line string) bool {
			lower := strings.ToLower(line)
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(lower, word) }) {
				full = full || !out.add(fmt.Sprintf("%s:%d: %s", name, number, line))
			}
			return !full
		})
		if err != nil {
			return "", err
		}
	}
	if full {
		out.noteCut("there are more such lines; search for something rarer, or in one page")
	}
	return out.textOr("No line contains that; search for fewer words, or for others"), nil
}

// eachLine calls look with the lines of a page until it returns false.
func (t docsTool) eachLine(page string, look func(number int, line string) bool) error {
	text, err := fs.ReadFile(t.pages, page)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for number := 1; lines.Scan(); number++ {
		if !look(number, lines.Text()) {
			return nil
		}
	}
	return lines.Err()
}

package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
)

//go:embed find_tools.md
var findProse string

var findSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "query": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What the tool should do, or its name."},
    "limit": {"type": "integer", "minimum": 1, "maximum": 20, "description": "How many tools are wanted at most. Default: 5."}
  },
  "required": ["query"],
  "additionalProperties": false
}`)

// FindTool is the tool that finds deferred tools. A run with deferred tools gets it automatically.
const FindTool = "find_tools"

const (
	// MaxInitialTools is how many tools a run gets from the start. If it has more, those that are
	// not part of Coppice are deferred.
	MaxInitialTools = 40
	// findLimit is the default number of results.
	findLimit = 5
	// maxQuery bounds a query, in characters.
	maxQuery = 500
	// maxFound is the maximum number of results.
	maxFound = 20
	// minPartialMatch is the minimum length in bytes of a word that matches a part of a name.
	minPartialMatch = 3
	// maxNamed is how many deferred tools the description lists.
	maxNamed = 200
)

// Finder is a tool whose results make deferred tools available. Which tools are available follows
// from the transcript alone.
type Finder interface {
	Tool
	// Found returns the names of the tools in a result.
	Found(result string) []string
}

// Defer splits the tools of a run into initial and deferred ones. Tools that the entries match
// (see [policy.EntryMatches]) are deferred; if there are too many tools, so are all that are not
// part of Coppice. If any are deferred, the tool to find them is among the initial ones. An agent
// that may not find tools gets no deferred tools.
func Defer(tools []Tool, entries []string, finds bool) (first, deferred []Tool) {
	own := Names()
	for _, t := range tools {
		name := t.Spec().Name
		if matchesAny(entries, name) || len(tools) > MaxInitialTools && !slices.Contains(own, name) {
			deferred = append(deferred, t)
			continue
		}
		first = append(first, t)
	}
	switch {
	case !finds:
		return first, nil
	case len(deferred) > 0:
		first = append(first, newFindTool(deferred))
	}
	return first, deferred
}

type findTool struct {
	spec     model.ToolSpec
	deferred []model.ToolSpec
}

func newFindTool(deferred []Tool) Finder {
	t := findTool{}
	var names []string
	for _, d := range deferred {
		t.deferred = append(t.deferred, d.Spec())
		names = append(names, d.Spec().Name)
	}
	prose := findProse + strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		prose += fmt.Sprintf(", and %d more", len(names)-maxNamed)
	}
	t.spec = model.ToolSpec{Name: FindTool, Description: prose + "\n", Schema: findSchema}
	return t
}

func (t findTool) Spec() model.ToolSpec { return t.spec }

func (findTool) Effect() Effect { return EffectNone }

// findResult is the text of a result.
type findResult struct {
	Tools []foundTool `json:"tools"`
	Note  string      `json:"note,omitempty"`
}

type foundTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"input_schema,omitempty"`
}

// Check: see [Checked].
func (findTool) Check(call Call) error {
	_, _, err := parseFind(call.Input)
	return err
}

func (t findTool) Call(_ context.Context, call Call) Outcome {
	query, limit, err := parseFind(call.Input)
	if err != nil {
		return failed(err)
	}
	out := findResult{Tools: []foundTool{}}
	size := 0
	for _, spec := range t.matching(query, limit) {
		one := foundTool{spec.Name, excerpt.Valid(spec.Description), spec.Schema}
		if size += len(one.Description) + len(one.Schema); size > maxOutput/2 {
			// The model gets the full description with its next call.
			one.Description, one.Schema = "", nil
		}
		out.Tools = append(out.Tools, one)
	}
	if len(out.Tools) == 0 {
		out.Note = "no tool fits; use other words, or the name of one of those that are listed"
	}
	text, err := json.Marshal(out)
	return result(string(text), err)
}

func parseFind(raw json.RawMessage) (query string, limit int, err error) {
	in := newInput(raw)
	query, limit = in.required("query", maxQuery), int(in.number("limit", findLimit, 1, maxFound))
	return query, limit, in.err()
}

// matching returns the best matches: tools that the query names, then by how many of its words are
// in the name, then in the description.
func (t findTool) matching(query string, limit int) []model.ToolSpec {
	type match struct {
		spec  model.ToolSpec
		score int
	}
	var matches []match
	words := wordsOf(query)
	for _, spec := range t.deferred {
		score := 0
		name, description := wordsOf(spec.Name), wordsOf(spec.Description)
		for _, word := range words {
			switch {
			case slices.Contains(name, word):
				score += 4
			case len(word) >= minPartialMatch && strings.Contains(strings.ToLower(spec.Name), word):
				score += 2
			case slices.Contains(description, word):
				score++
			}
		}
		if exact := strings.TrimSpace(query); strings.EqualFold(exact, spec.Name) || policy.EntryMatches(exact, spec.Name) {
			score += 1000
		}
		if score > 0 {
			matches = append(matches, match{spec, score})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return b.score - a.score })
	var best []model.ToolSpec
	for _, m := range matches[:min(len(matches), limit)] {
		best = append(best, m.spec)
	}
	return best
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func (t findTool) Found(text string) []string {
	var out findResult
	if json.Unmarshal([]byte(text), &out) != nil {
		return nil // it was cut, so the model has not seen all of it either
	}
	var names []string
	for _, one := range out.Tools {
		names = append(names, one.Name)
	}
	return names
}

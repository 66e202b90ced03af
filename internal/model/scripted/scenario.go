package scripted

import (
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/yamltree"
)

// Scenario is a parsed and checked scenario. It is immutable.
type Scenario struct {
	// About describes the scenario to people.
	About string

	source yamltree.Source
	model  string
	stream stream
	vars   map[string]*snippet
	steps  []*step
}

// step is a possible answer of the model, with its condition.
type step struct {
	when     condition
	delay    *snippet
	thinking *snippet
	text     *snippet
	calls    []call
	stream   stream
	usage    usage
	stop     tree.StopReason
	failure  *failure
	line     int
}

// condition says when a step applies. Unset fields match anything.
type condition struct {
	agent, model           string // globs (path.Match); empty matches all
	depth, turn, sinceUser span
	prompt, last           *regexp.Regexp
	test                   *snippet
	// The groups of both patterns are numbered together, from 1.
	groups    map[string]int
	allGroups int
}

// span is a range of numbers. The zero span contains every number.
type span struct{ from, to *int }

func (s span) holds(n int) bool {
	return (s.from == nil || n >= *s.from) && (s.to == nil || n <= *s.to)
}

// call describes a tool call, or one call for each item of a list.
type call struct {
	tool    *snippet
	forEach *snippet // an expression; nil for a single call
	input   input
}

// stream sets how text is streamed: chunk characters at a time, or all at once if it is 0.
type stream struct {
	chunk int
	every time.Duration
}

// usage has the token counts of a step; nil if unset.
type usage struct{ input, output, cacheRead, cacheWrite *int64 }

// failure describes an error of the provider.
type failure struct {
	kind       model.ErrorKind
	message    *snippet
	retryAfter time.Duration
	times      int // how often the step fails before it is skipped; 0: always
}

//go:embed survey.yaml
var surveyYAML []byte

// Survey returns the built-in scenario: agents that count the files and lines of a workspace,
// with sub-agents for its directories.
func Survey() *Scenario {
	s, err := Parse("survey.yaml", surveyYAML)
	if err != nil {
		panic("the built-in scenario is broken: " + err.Error())
	}
	return s
}

// Load reads a scenario from a file.
func Load(path string) (*Scenario, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the scenario: %w", err)
	}
	defer f.Close()
	data, err := readBounded(f)
	if err != nil {
		return nil, fmt.Errorf("read the scenario %s: %w", path, err)
	}
	return Parse(path, data)
}

package scripted

import (
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// Scenario is a script that was read and checked. It is immutable.
type Scenario struct {
	// About says what the scenario plays, for people.
	About string

	file   string
	model  string
	stream stream
	vars   map[string]*snippet
	steps  []*step
}

// step is one thing the model may answer, and when.
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

// condition says when a step answers. What it leaves out matches anything.
type condition struct {
	agent, model           string // globs as of path.Match; empty matches all
	depth, turn, sinceUser span
	prompt, last           *regexp.Regexp
	test                   *snippet
	// The groups of both patterns are numbered in one go, from 1.
	groups    map[string]int
	allGroups int
}

// span is a range of numbers. The zero span holds every number.
type span struct{ from, to *int }

func (s span) holds(n int) bool {
	return (s.from == nil || n >= *s.from) && (s.to == nil || n <= *s.to)
}

// call scripts a tool call, or one for each item of a list.
type call struct {
	tool    *snippet
	forEach *snippet // an expression; nil for a single call
	input   input
}

// stream says how text comes: chunk characters at a time, all at once if it is 0.
type stream struct {
	chunk int
	every time.Duration
}

// usage holds the counts that a step gives; those it leaves out are nil.
type usage struct{ input, output, cacheRead, cacheWrite *int64 }

// failure scripts a provider's error.
type failure struct {
	kind       model.ErrorKind
	message    *snippet
	retryAfter time.Duration
	times      int // how often before the step is passed over; 0 is always
}

//go:embed survey.yaml
var surveyYAML []byte

// Survey gives the built-in scenario: agents that count the files and lines of
// any workspace, with sub-agents for its folders.
func Survey() *Scenario {
	s, err := Parse("survey.yaml", surveyYAML)
	if err != nil {
		panic("the built-in scenario is broken: " + err.Error())
	}
	return s
}

// Load reads the scenario file at path.
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

// Package scripted is a model that answers from a scenario file, so that tests and demos run
// real trees of agents without a provider.
//
// An answer depends only on the scenario and the request. A run that is delivered again, to
// another worker or after a crash, gets byte-for-byte the same answers. The only exception is a
// scripted error with "times", which is counted in this process, by task and position in the
// conversation.
//
// A template can be made to compute for a long time: it is bounded in size, not in time. Run
// only scenarios that you trust.
package scripted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

const (
	// maxCalls bounds the tool calls of an answer.
	maxCalls = 10_000
	// maxAnswer bounds the text and the inputs of an answer, in bytes.
	maxAnswer = 4 << 20
)

// Model plays a scenario. It implements [model.Model].
type Model struct {
	scenario *Scenario
	views    sync.Pool // of *view
	failures failures
}

var _ model.Model = (*Model)(nil)

// New returns a model that plays s.
func New(s *Scenario) *Model {
	return &Model{scenario: s, failures: failures{counts: map[failureKey]int{}}}
}

// Generate answers with the first step that matches the request. Errors in the scenario, and
// requests that match no step, are a [model.Error] of kind ErrorInvalid that names the place.
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	v, ok := m.views.Get().(*view)
	if !ok {
		v = newView(m.scenario)
	}
	defer func() {
		v.clear()
		m.views.Put(v)
	}()
	v.read(ctx, req)
	p := &player{view: v, req: req}
	if emit == nil {
		emit = func(model.Delta) {}
	}
	answer, err := p.play(ctx, m, emit)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	var known *model.Error
	if errors.As(err, &known) {
		return nil, err
	}
	return nil, invalid(err)
}

// player produces one answer.
type player struct {
	view *view
	req  *model.Request
	step *step
}

func (p *player) play(ctx context.Context, m *Model, emit func(model.Delta)) (*model.Answer, error) {
	if err := p.choose(m); err != nil {
		return nil, err
	}
	d := &p.view.dot
	blocks, err := p.blocks(d)
	if err != nil {
		return nil, err
	}
	delay, err := p.delay(d)
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, delay); err != nil {
		return nil, err
	}
	if err := p.emit(ctx, blocks, emit); err != nil {
		return nil, err
	}
	if p.step.failure != nil {
		return nil, p.fail(d)
	}
	if len(blocks) == 0 {
		return nil, p.view.scenario.source.Errorf(p.step.line, "the step matches, but neither its text nor its calls give anything")
	}
	return &model.Answer{
		Model:  m.scenario.model,
		Blocks: blocks,
		Usage:  p.usage(blocks),
		Stop:   p.stop(blocks),
	}, nil
}

// choose finds the first matching step.
func (p *player) choose(m *Model) error {
	for i, s := range m.scenario.steps {
		ok, err := p.view.match(&s.when)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if f := s.failure; f != nil && f.times > 0 {
			if !m.failures.shouldFail(failureKey{p.req.Task, len(p.req.Messages), i}, f.times) {
				continue
			}
		}
		p.step = s
		return nil
	}
	d := &p.view.dot
	return fmt.Errorf("%s: no step for agent %q at depth %d, turn %d (%d since the last user message); the last text is %q",
		m.scenario.source.Name, d.Agent, d.Depth, d.Turn, d.SinceUser, shorten(d.Last, 200))
}

func (p *player) blocks(d *templateData) ([]tree.Block, error) {
	var blocks []tree.Block
	size := 0
	for _, part := range []struct {
		from *snippet
		as   func(string) tree.Block
	}{
		{p.step.thinking, func(s string) tree.Block { return tree.Thinking{Text: s} }},
		{p.step.text, func(s string) tree.Block { return tree.Text{Text: s} }},
	} {
		text, err := p.view.render(part.from, d)
		if err != nil {
			return nil, err
		}
		if text != "" {
			blocks = append(blocks, part.as(text))
			size += len(text)
		}
	}
	number := 0
	for i := range p.step.calls {
		c := &p.step.calls[i]
		items, err := p.items(c, d)
		if err != nil {
			return nil, err
		}
		for n, item := range items {
			inner := *d
			inner.Item, inner.N = item, n
			use, err := p.use(c, &inner)
			if err != nil {
				return nil, err
			}
			number++
			use.ProviderID = fmt.Sprintf("call_%d_%d", d.Turn, number)
			blocks = append(blocks, use)
			if size += len(use.Input); size > maxAnswer || number > maxCalls {
				return nil, p.view.scenario.source.Errorf(p.step.line, "an answer has at most %d calls and %d bytes", maxCalls, maxAnswer)
			}
		}
	}
	return blocks, nil
}

// items returns the items of a call. A call without for_each has one. An empty or false value
// means no items.
func (p *player) items(c *call, d *templateData) ([]any, error) {
	if c.forEach == nil {
		return []any{nil}, nil
	}
	value, err := p.view.value(c.forEach, d)
	if err != nil {
		return nil, err
	}
	if !isTrue(value) {
		return nil, nil
	}
	items, err := list(value)
	if err != nil {
		return nil, c.forEach.fail(err)
	}
	return items, nil
}

func (p *player) use(c *call, d *templateData) (tree.ToolUse, error) {
	name, err := p.view.render(c.tool, d)
	if err != nil {
		return tree.ToolUse{}, err
	}
	if name == "" {
		return tree.ToolUse{}, c.tool.fail(errors.New("the name of the tool is empty"))
	}
	var written bytes.Buffer
	if err := c.input.write(p.view, d, &written); err != nil {
		return tree.ToolUse{}, err
	}
	return tree.ToolUse{Name: name, Input: written.Bytes()}, nil
}

func (p *player) delay(d *templateData) (time.Duration, error) {
	text, err := p.view.render(p.step.delay, d)
	if err != nil || text == "" {
		return 0, err
	}
	delay, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || delay < 0 {
		return 0, p.step.delay.fail(fmt.Errorf("expected %s, got %q", wantDuration, shorten(text, 80)))
	}
	return delay, nil
}

// emit streams the texts at the speed of the step.
func (p *player) emit(ctx context.Context, blocks []tree.Block, emit func(model.Delta)) error {
	begun := false
	for _, b := range blocks {
		var d model.Delta
		switch b := b.(type) {
		case tree.Thinking:
			d = model.Delta{Text: b.Text, Thinking: true}
		case tree.Text:
			d = model.Delta{Text: b.Text}
		}
		for rest := d.Text; rest != ""; {
			if begun {
				if err := sleep(ctx, p.step.stream.every); err != nil {
					return err
				}
			}
			begun = true
			d.Text, rest = splitHead(rest, p.step.stream.chunk)
			emit(d)
		}
	}
	return nil
}

// splitHead splits off the first n characters; all of them if n is 0.
func splitHead(s string, n int) (start, rest string) {
	for i := range s {
		if n == 0 && i > 0 {
			return s[:i], s[i:]
		}
		n--
	}
	return s, ""
}

func (p *player) fail(d *templateData) error {
	f := p.step.failure
	message, err := p.view.render(f.message, d)
	if err != nil {
		return err
	}
	if message == "" {
		message = "the scenario says so"
	}
	return &model.Error{Kind: f.kind, RetryAfter: f.retryAfter, Err: errors.New(message)}
}

func (p *player) stop(blocks []tree.Block) tree.StopReason {
	if p.step.stop != tree.StopUnspecified {
		return p.step.stop
	}
	if _, calls := blocks[len(blocks)-1].(tree.ToolUse); calls {
		return tree.StopToolUse
	}
	return tree.StopEndTurn
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// maxOccasions bounds the memory of failures. When it is full, it is emptied.
const maxOccasions = 1 << 16

// failureKey identifies a step at one position of a task's conversation.
type failureKey struct {
	task     tree.TaskID
	messages int
	step     int
}

// failures counts scripted errors with "times".
type failures struct {
	mu     sync.Mutex
	counts map[failureKey]int
}

// shouldFail reports whether to fail once more, and counts it.
func (f *failures) shouldFail(o failureKey, times int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts[o] >= times {
		return false
	}
	if len(f.counts) >= maxOccasions {
		clear(f.counts)
	}
	f.counts[o]++
	return true
}

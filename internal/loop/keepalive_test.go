package loop_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// typist is a model whose answer comes in pieces, for some time, and a tool that takes its own.
type typist struct {
	*core
	pieces []time.Duration // from one piece to the next
}

func (m *typist) pass(by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(by)
}

func (m *typist) clock() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *typist) Generate(_ context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	for _, pause := range m.pieces {
		m.pass(pause)
		emit(model.Delta{})
	}
	if len(req.Messages) > 1 {
		return &model.Answer{Stop: tree.StopEndTurn, Blocks: []tree.Block{tree.Text{Text: "done"}}}, nil
	}
	use := tree.ToolUse{Name: "rest", ProviderID: "1", Input: json.RawMessage(`{}`)}
	return &model.Answer{Stop: tree.StopToolUse, Blocks: []tree.Block{use}}, nil
}

func (m *typist) Spec() model.ToolSpec { return model.ToolSpec{Name: "rest"} }
func (m *typist) Effect() tool.Effect  { return tool.EffectNone }

func (m *typist) Call(context.Context, tool.Call) tool.Outcome {
	m.pass(time.Minute)
	return tool.Done{Text: "rested"}
}

// TestARunSaysThatItGoesOn: as long as something comes of the model each quarter of a minute,
// whatever it is, and when a tool begins or is done; while nothing comes nothing is said.
func TestARunSaysThatItGoesOn(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		pieces []time.Duration
		said   []time.Duration // after the beginning; when the tool begins too, unless it said something just then
	}{
		"all at once":   {nil, []time.Duration{60 * s}},
		"at once":       {[]time.Duration{0, s, 2 * s}, []time.Duration{3 * s, 63 * s}},
		"in pieces":     {[]time.Duration{8 * s, 8 * s, 8 * s}, []time.Duration{16 * s, 24 * s, 84 * s, 100 * s}},
		"after a while": {[]time.Duration{240 * s, s}, []time.Duration{240 * s, 241 * s, 301 * s, 541 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &typist{pieces: c.pieces}
			m.core = newCore(t, m, m)
			m.prepare = func(r *loop.Run) { r.Now = m.clock }
			began := m.now
			m.must(tree.CreateSession{
				ID: tree.SessionID{1}, Tenant: "t", Agent: m.agents["root"], Limits: tree.DefaultLimits(),
				Message: []tree.Block{tree.Text{Text: "go"}}, Permissions: policy.Layer{Mode: policy.ModeBypass},
			})
			m.play(t.Context())
			var said []time.Duration
			for _, e := range m.view.Changes().Events {
				if _, is := e.Kind.(tree.Progressed); is {
					said = append(said, e.Time.Sub(began).Truncate(time.Second)) // each request takes a moment
				}
			}
			if !slices.Equal(said, c.said) {
				t.Errorf("it has said so after %v, want %v", said, c.said)
			}
		})
	}
}

package anthropic

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestThinkingFitsTheModel: what a model would refuse is left out.
func TestThinkingFitsTheModel(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ adaptive, tokens bool }{
		"m":                                {true, true},
		"claude-mythos-preview":            {true, true},
		"claude-sonnet-latest":             {true, true},
		"claude-3-7-sonnet-20250219":       {false, true},
		"claude-sonnet-4-20250514":         {false, true},
		"claude-opus-4-1-20250805":         {false, true},
		"claude-haiku-4-5":                 {false, true},
		"claude-haiku-4-5-20251001":        {false, true},
		"claude-sonnet-4-5@20250929":       {false, true},
		"us.anthropic.claude-opus-4-5-v1":  {false, true},
		"claude-opus-4-6":                  {true, true},
		"anthropic/claude-sonnet-4.6":      {true, true},
		"claude-opus-4-7":                  {true, false},
		"claude-opus-4-8":                  {true, false},
		"claude-sonnet-5":                  {true, false},
		"claude-opus-5-20260724":           {true, false},
		"claude-haiku-5-5":                 {true, false},
		"claude-fable-5-1":                 {true, false},
		"global.anthropic.claude-fable-10": {true, false},
	} {
		p := Config{Thinking: Thinking{Adaptive: true}}.params(&model.Request{Model: name})
		if got := p.Thinking.OfAdaptive != nil; got != want.adaptive || p.Thinking.OfEnabled != nil {
			t.Errorf("%s thinks by itself: %t", name, got)
		}
		p = Config{Thinking: Thinking{Tokens: 2000}}.params(&model.Request{Model: name})
		if got := p.Thinking.OfEnabled != nil; got != want.tokens || p.Thinking.OfAdaptive != nil {
			t.Errorf("%s takes a number: %t", name, got)
		}
	}
}

// strict is a provider that looks at the reasoning that comes back.
type strict struct {
	mu      sync.Mutex
	bodies  []string
	refusal func(body string, header http.Header) string // empty: it answers
}

func (s *strict) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bodies = append(s.bodies, string(body))
	status, kind, said := http.StatusOK, "text/event-stream", fine
	if why := s.refusal(string(body), req.Header); why != "" {
		status, kind = http.StatusBadRequest, "application/json"
		said = `{"type":"error","error":{"type":"invalid_request_error","message":"` + why + `"}}`
	}
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(bytes.NewBufferString(said)),
	}, nil
}

const fine = `event: message_start
data: {"type":"message_start","message":{"model":"x","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}

event: message_stop
data: {"type":"message_stop"}

`

// TestRefusedThoughts: a conversation whose reasoning the provider won't take back goes
// on without it.
func TestRefusedThoughts(t *testing.T) {
	t.Parallel()
	const (
		moved = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. " +
			"Remove the block, or set `" + dropField + "` to \\\"drop_block\\\"."
		spoilt = "messages.1.content.0: Invalid `signature` in `thinking` block"
	)
	thinks := func(body string) bool { return strings.Contains(body, `"signature"`) }
	drops := func(body string) bool { return strings.Contains(body, `"block_binding"`) }
	refuse := func(why string, when bool) string {
		if when {
			return why
		}
		return ""
	}
	for name, test := range map[string]struct {
		refusal func(body string, header http.Header) string
		how     Thinking
		model   string
		want    []string // the first call's requests, and then the second's
	}{
		"nothing is refused": {
			func(string, http.Header) string { return "" }, Thinking{Adaptive: true}, "claude-opus-5-5", []string{"thoughts", "thoughts"},
		},
		"the provider drops them from then on": {
			func(body string, h http.Header) string {
				switch asked := strings.Contains(h.Get("Anthropic-Beta"), "thinking-binding-controls-2026-08-01"); {
				case drops(body) && !asked:
					return "block_binding: Extra inputs are not permitted"
				case drops(body) && !strings.Contains(body, `"type":"adaptive"`):
					return "thinking.type: Field required"
				}
				return refuse(moved, thinks(body) && !strings.Contains(body, `"drop_block"`))
			},
			Thinking{}, "claude-opus-5-5", []string{"thoughts", "dropped", "dropped"},
		},
		"a server that can't drop them": {
			func(body string, _ http.Header) string {
				if drops(body) {
					return "block_binding: Extra inputs are not permitted"
				}
				return refuse(moved, thinks(body))
			},
			Thinking{Adaptive: true}, "claude-opus-5-5", []string{"thoughts", "dropped", "none", "none"},
		},
		"they can't be read": {
			func(body string, _ http.Header) string { return refuse(spoilt, thinks(body)) },
			Thinking{Adaptive: true}, "claude-opus-5-5", []string{"thoughts", "none", "none"},
		},
		"a number of tokens goes with them": {
			func(body string, _ http.Header) string {
				return refuse(spoilt, thinks(body) || strings.Contains(body, `"budget_tokens"`))
			},
			Thinking{Tokens: 2000}, "claude-sonnet-4-5", []string{"thoughts", "none", "none"},
		},
		"another refusal": {
			func(string, http.Header) string { return "tools.0: Input should be an object" },
			Thinking{}, "claude-opus-5-5", []string{"thoughts", "thoughts"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := &strict{refusal: test.refusal}
			m, err := New(Config{Key: "k", Model: test.model, Thinking: test.how, HTTP: &http.Client{Transport: provider}})
			if err != nil {
				t.Fatal(err)
			}
			req := &model.Request{Task: tree.TaskID{1}, Messages: []tree.Message{
				said(tree.RoleUser, tree.Text{Text: "hi"}),
				said(tree.RoleAssistant, tree.Thinking{Text: "hm", Signature: "s"}, tree.ToolUse{ProviderID: "c", Name: "ls", Input: []byte("{}")}),
				said(tree.RoleTool, tree.ToolResult{Block: 1, Text: "r"}),
			}}
			for range 2 {
				_, err := m.Generate(t.Context(), req, nil)
				var failed *model.Error
				if refused := errors.As(err, &failed) && failed.Kind == model.ErrorInvalid; (err != nil || name == "another refusal") && !(refused && name == "another refusal") {
					t.Fatalf("answered %v", err)
				}
			}
			var got []string
			for _, body := range provider.bodies {
				switch {
				case drops(body):
					got = append(got, "dropped")
				case thinks(body):
					got = append(got, "thoughts")
				default:
					got = append(got, "none")
				}
			}
			if strings.Join(got, ", ") != strings.Join(test.want, ", ") {
				t.Errorf("asked with %v, want %v", got, test.want)
			}
			if thought := req.Messages[1].Blocks[0].(tree.Thinking); thought.Signature != "s" {
				t.Error("the caller's messages were changed")
			}
		})
	}
}

// TestRefusedThoughtsAreRemembered: what was refused once does not go back to be refused with
// each call. New reasoning does, unless that is refused as well.
func TestRefusedThoughtsAreRemembered(t *testing.T) {
	t.Parallel()
	var refused []string
	provider := &strict{refusal: func(body string, _ http.Header) string {
		if slices.ContainsFunc(refused, func(s string) bool { return strings.Contains(body, `"`+s+`"`) }) {
			return "Invalid `signature` in `thinking` block"
		}
		return ""
	}}
	m, err := New(Config{Key: "k", Model: "claude-opus-5", HTTP: &http.Client{Transport: provider}})
	if err != nil {
		t.Fatal(err)
	}
	req := &model.Request{Task: tree.TaskID{1}, Messages: []tree.Message{said(tree.RoleUser, tree.Text{Text: "hi"})}}
	thought := func(signatures ...string) {
		for _, s := range signatures {
			req.Messages = append(req.Messages, said(tree.RoleAssistant, tree.Thinking{Text: "hm", Signature: s}, tree.Text{Text: "ok"}), said(tree.RoleUser, tree.Text{Text: "and?"}))
		}
	}
	for _, step := range []struct {
		thoughts []string // that have come in
		refused  []string
		want     []string // the signatures in each request
	}{
		{[]string{"sa", "sb"}, []string{"sa"}, []string{"sa sb", ""}},
		{nil, []string{"sa"}, []string{""}},
		{[]string{"sc"}, []string{"sa"}, []string{"sc"}},
		{[]string{"sd"}, []string{"sd"}, []string{"sc sd", ""}},
		{[]string{"se"}, nil, []string{""}},
	} {
		thought(step.thoughts...)
		refused, provider.bodies = step.refused, nil
		if _, err := m.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, body := range provider.bodies {
			got = append(got, strings.Join(signature.FindAllString(body, -1), " "))
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("with %v: asked with %q, want %q", step.thoughts, got, step.want)
		}
	}
	req.Task, refused, provider.bodies = tree.TaskID{2}, nil, nil
	if _, err := m.Generate(t.Context(), req, nil); err != nil || len(provider.bodies) != 1 || !strings.Contains(provider.bodies[0], "se") {
		t.Errorf("another conversation: %v, asked with %v", err, provider.bodies)
	}
}

var signature = regexp.MustCompile(`\bs[a-e]\b`)

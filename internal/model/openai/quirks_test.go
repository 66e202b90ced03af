package openai

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// picky is a server that refuses some requests.
type picky struct {
	mu      sync.Mutex
	bodies  []string
	refusal func(body string) string // empty: it answers
}

func (p *picky) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies = append(p.bodies, string(body))
	answer := chunks("stop", `{"content":"ok"}`)
	if why := p.refusal(string(body)); why != "" {
		answer = server{status: http.StatusBadRequest, body: `{"error":{"message":"` + why + `","type":"invalid_request_error"}}`}
	}
	return answer.RoundTrip(req)
}

// TestHabitsAreLearned: what a server demands of a model's requests it is given from its
// first refusal on, and no other server is.
func TestHabitsAreLearned(t *testing.T) {
	t.Parallel()
	const (
		none   = `"reasoning_effort":"none"`
		effort = "Function tools with reasoning_effort are not supported for gpt-5.6-sol in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
		older  = "Function tools with reasoning_effort are not supported for x in /v1/chat/completions. Please use /v1/responses instead."
		lost   = "The `reasoning_content` in the thinking mode must be passed back to the API."
	)
	has := func(parts ...string) func(string) bool {
		return func(body string) bool {
			for _, part := range parts {
				if !strings.Contains(body, part) {
					return false
				}
			}
			return true
		}
	}
	plain := func(body string) bool {
		return !strings.Contains(body, "reasoning_effort") && !strings.Contains(body, "reasoning_content")
	}
	unless := func(why string, fine func(string) bool) func(string) string {
		return func(body string) string {
			if fine(body) {
				return ""
			}
			return why
		}
	}
	thoughts := has(`"reasoning_content":"hm"`, `"reasoning_content":""`)
	for name, test := range map[string]struct {
		refusal func(string) string
		tools   bool
		want    []func(string) bool // the requests of two calls
		err     string
	}{
		"nothing is refused": {unless("", plain), true, []func(string) bool{plain, plain}, ""},
		"no reasoning beside tools": {
			unless(effort, has(none)), true, []func(string) bool{plain, has(none), has(none)}, "",
		},
		"reasoning with the calls": {
			unless(lost, thoughts), true, []func(string) bool{plain, thoughts, thoughts}, "",
		},
		"no reasoning beside tools, and none without": {
			func(body string) string {
				if has(none)(body) {
					return "Unsupported value: 'reasoning_effort' does not support 'none' with this model."
				}
				return older
			},
			true, []func(string) bool{plain, has(none), plain, has(none)}, "use /v1/responses instead",
		},
		"another refusal": {
			func(string) string { return "too long" }, true, []func(string) bool{plain, plain}, "too long",
		},
		"without tools there is nothing to change": {
			func(string) string { return effort }, false, []func(string) bool{plain, plain}, "reasoning_effort",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := &picky{refusal: test.refusal}
			m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: from}})
			if err != nil {
				t.Fatal(err)
			}
			req := &model.Request{Messages: []tree.Message{
				says(tree.RoleUser, tree.Text{Text: "hi"}),
				says(tree.RoleAssistant, tree.Thinking{Text: "hm"}, tree.ToolUse{ProviderID: "a", Name: "ls", Input: []byte("{}")}),
				says(tree.RoleTool, tree.ToolResult{Block: 1, Text: "r"}),
				says(tree.RoleAssistant, tree.Thinking{Text: "another's", Signature: "s"}, tree.ToolUse{ProviderID: "b", Name: "ls", Input: []byte("{}")}),
				says(tree.RoleTool, tree.ToolResult{Block: 1, Text: "r"}),
				says(tree.RoleAssistant, tree.Thinking{Text: "done"}, tree.Text{Text: "there"}),
				says(tree.RoleUser, tree.Text{Text: "and?"}),
			}}
			if test.tools {
				req.Tools = []model.ToolSpec{{Name: "ls", Schema: []byte(`{"type":"object"}`)}}
			}
			for range 2 {
				_, err := m.Generate(t.Context(), req, nil)
				var failed *model.Error
				switch {
				case test.err == "" && err != nil:
					t.Fatal(err)
				case test.err != "" && (!errors.As(err, &failed) || failed.Kind != model.ErrorInvalid || !strings.Contains(err.Error(), test.err)):
					t.Fatalf("answered %v", err)
				}
			}
			if len(from.bodies) != len(test.want) {
				t.Fatalf("asked %d times, want %d", len(from.bodies), len(test.want))
			}
			for i, body := range from.bodies {
				if !test.want[i](body) || strings.Contains(body, "another's") || strings.Contains(body, `"done"`) {
					t.Errorf("request %d is %s", i, body)
				}
			}
		})
	}
}

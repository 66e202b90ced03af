package fakellm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/anthropic"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestAnAnswerComesWhole: blocks, usage, the reason to stop, and the pieces.
func TestAnAnswerComesWhole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		m, fake := serve(t, api, fakellm.Config{Model: always(rich())})
		var text, thinking string
		unseen := 0
		got, err := m.Generate(t.Context(), ask(), func(d model.Delta) {
			if d == (model.Delta{}) {
				unseen++
			}
			if d.Thinking {
				thinking += d.Text
			} else {
				text += d.Text
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		want := rich()
		want.Model = "gpt-fake"
		switch api {
		case "anthropic":
			want.Model = "claude-fake"
			want.Blocks[0] = tree.Thinking{Text: "Hm, „both“.", Signature: "c2VhbGVk"}
		case "responses":
			want.Blocks[0] = tree.Thinking{Text: "Hm, „both“.", Signature: "openai:item_0:c2VhbGVk"}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if unseen < 2 {
			t.Errorf("of the input of 2 calls it was said %d times that it comes", unseen)
		}
		if text != "Läs ✓" || thinking != "Hm, „both“." {
			t.Errorf("shown: %q, thinking %q", text, thinking)
		}
		if n := fake.Counts(); n != (fakellm.Counts{Accepted: 1, Completed: 1}) {
			t.Errorf("counted %+v", n)
		}
	})
}

// TestAConversationArrives: what the model is told is what the request says, but for
// what the wire has no room for.
func TestAConversationArrives(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		var heard *model.Request
		m, _ := serve(t, api, fakellm.Config{Model: says(func(req *model.Request) (*model.Answer, error) {
			heard = req
			return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "ok"}}, Stop: tree.StopEndTurn}, nil
		})})
		req := ask()
		req.Model, req.Reminder = "another", "Mind the gap."
		req.Messages = append(req.Messages,
			tree.Message{Role: tree.RoleAssistant, Blocks: rich().Blocks},
			tree.Message{Role: tree.RoleTool, Blocks: []tree.Block{
				tree.ToolResult{Block: 2, Text: "a\nb"}, tree.ToolResult{Block: 3, Text: "no", IsError: true},
			}},
			tree.Message{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "News."}}},
		)
		if _, err := m.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		want := *req
		want.Messages = slices.Clone(req.Messages)
		// Reasoning goes back with its signature only, and to Anthropic only.
		want.Messages[1].Blocks = req.Messages[1].Blocks[1:]
		want.Messages[2].Blocks = []tree.Block{
			tree.ToolResult{Block: 1, ProviderID: "call_1", Text: "a\nb"}, tree.ToolResult{Block: 2, ProviderID: "call_2", Text: "no", IsError: true},
		}
		want.Messages = append(want.Messages, tree.Message{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "Mind the gap."}}})
		want.Reminder = ""
		if api == "openai" { // one message, since the sides take turns
			want.Messages = append(want.Messages[:3], tree.Message{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "News.\n\nMind the gap."}}})
		}
		for i := range heard.Tools { // the order of keys is not the same
			heard.Tools[i].Schema = sameJSON(t, heard.Tools[i].Schema, want.Tools[i].Schema)
		}
		if !reflect.DeepEqual(heard, &want) {
			t.Errorf("got  %+v\nwant %+v", heard, &want)
		}
	})
}

// sameJSON gives want if got means the same.
func sameJSON(t *testing.T, got, want json.RawMessage) json.RawMessage {
	t.Helper()
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil || !reflect.DeepEqual(a, b) {
		return got
	}
	return want
}

// TestACutAnswerIsNone cuts a recorded answer after every byte, in the two ways in
// which that happens: the connection breaks, or the answer ends as if it were whole.
func TestACutAnswerIsNone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		whole := record(t, api, rich())
		cut := &replay{header: whole.header}
		m := apis[api](t, "http://provider", &http.Client{Transport: cut})
		cuts := 0
		for n := range len(whole.body) + 1 {
			for _, end := range []error{nil, io.ErrUnexpectedEOF} {
				cut.body, cut.err = whole.body[:n], end
				answer, err := m.Generate(t.Context(), ask(), nil)
				if n == len(whole.body) {
					if err != nil {
						t.Errorf("the whole of it: %v", err)
					}
					continue
				}
				if len(bytes.TrimSpace(whole.body[n:])) == 0 && end == nil && err == nil {
					continue // it lacks line breaks alone, which not all servers send
				}
				cuts++
				var failed *model.Error
				if answer != nil || !errors.As(err, &failed) || failed.Kind != model.ErrorBroken {
					t.Fatalf("cut after %d of %d bytes, before %q: answered %+v, %v", n, len(whole.body), whole.body[n:], answer, err)
				}
			}
		}
		t.Logf("%d cuts", cuts)
	})
}

// TestTroubles: each has its kind, and none leaves half an answer.
func TestTroubles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		trouble fakellm.Fault
		want    model.ErrorKind
		after   time.Duration
	}{
		"429":                     {fakellm.Fault{Status: 429, RetryAfter: 7 * time.Second}, model.ErrorRateLimited, 7 * time.Second},
		"400":                     {fakellm.Fault{Status: 400}, model.ErrorInvalid, 0},
		"401":                     {fakellm.Fault{Status: 401}, model.ErrorAuth, 0},
		"500":                     {fakellm.Fault{Status: 500}, model.ErrorOverloaded, 0},
		"529":                     {fakellm.Fault{Status: 529, RetryAfter: time.Second}, model.ErrorOverloaded, time.Second},
		"cut before anything":     {fakellm.Fault{Cut: 1}, model.ErrorBroken, 0},
		"cut in the middle":       {fakellm.Fault{Cut: 700}, model.ErrorBroken, 0},
		"ended in the middle":     {fakellm.Fault{Cut: 700, Quietly: true}, model.ErrorBroken, 0},
		"overloaded on the way":   {fakellm.Fault{BreakOff: 529}, model.ErrorOverloaded, 0},
		"rate limited on the way": {fakellm.Fault{BreakOff: 429}, model.ErrorRateLimited, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, api string) {
				m, fake := serve(t, api, fakellm.Config{Model: always(rich()), Fault: func(int64) fakellm.Fault { return test.trouble }})
				answer, err := m.Generate(t.Context(), ask(), nil)
				var failed *model.Error
				if answer != nil || !errors.As(err, &failed) || failed.Kind != test.want || failed.RetryAfter != test.after {
					t.Errorf("answered %v, %v", answer, err)
				}
				if n := fake.Counts(); n.Accepted != 1 {
					t.Errorf("asked %d times", n.Accepted)
				}
			})
		})
	}
}

// TestWrongInputIsHandedOn: the tool tells the model, so the stream is no failure.
func TestWrongInputIsHandedOn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		m, _ := serve(t, api, fakellm.Config{
			Model: always(rich()), Fault: func(int64) fakellm.Fault { return fakellm.Fault{Malformed: true} },
		})
		answer, err := m.Generate(t.Context(), ask(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if use := answer.Blocks[2].(tree.ToolUse); string(use.Input) != `{"path":"ä/\"b\"", "oops` {
			t.Errorf("the input is %s", use.Input)
		}
		// The next request shows the call, though no server takes such an input.
		req := ask()
		req.Messages = append(req.Messages, tree.Message{Role: tree.RoleAssistant, Blocks: answer.Blocks}, tree.Message{
			Role: tree.RoleTool, Blocks: []tree.Block{tree.ToolResult{Block: 2, IsError: true, Text: "no JSON"}, tree.ToolResult{Block: 3}},
		})
		if _, err := m.Generate(t.Context(), req, nil); err != nil {
			t.Error(err)
		}
	})
}

// TestACallCutByTheLimitIsNotMade: its input must not pass for an empty object.
func TestACallCutByTheLimitIsNotMade(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"", `{"pa`, `{}`} {
		t.Run(input, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, api string) {
				m, _ := serve(t, api, fakellm.Config{Model: always(&model.Answer{
					Blocks: []tree.Block{tree.ToolUse{ProviderID: "c", Name: "ls", Input: json.RawMessage(input)}}, Stop: tree.StopMaxTokens,
				})})
				answer, err := m.Generate(t.Context(), ask(), nil)
				if err != nil || answer.Stop != tree.StopMaxTokens {
					t.Fatal(answer, err)
				}
				if use := answer.Blocks[0].(tree.ToolUse); json.Valid(use.Input) {
					t.Errorf("the input is %q", use.Input)
				}
			})
		})
	}
}

func TestManyCallsAndMuchText(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		a := &model.Answer{Stop: tree.StopToolUse}
		for i := range 200 {
			a.Blocks = append(a.Blocks, tree.ToolUse{ProviderID: fmt.Sprintf("c%d", i), Name: "ls", Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))})
		}
		const much = 3 << 20
		m, _ := serve(t, api, fakellm.Config{Model: always(a), Fault: func(int64) fakellm.Fault { return fakellm.Fault{Padding: much} }})
		got, err := m.Generate(t.Context(), ask(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Blocks) != 201 || len(got.Blocks[0].(tree.Text).Text) != much || !reflect.DeepEqual(got.Blocks[1:], a.Blocks) {
			t.Errorf("got %d blocks", len(got.Blocks))
		}
	})
}

// TestLeavingAStalledAnswer: who no longer wants an answer does not wait for it.
func TestLeavingAStalledAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		m, _ := serve(t, api, fakellm.Config{Model: always(rich()), Fault: func(int64) fakellm.Fault { return fakellm.Fault{Stall: 900} }})
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the run is over")
		if _, err := m.Generate(ctx, ask(), func(model.Delta) { cancel(why) }); !errors.Is(err, why) {
			t.Errorf("ended with %v", err)
		}
	})
}

// TestRefusals: the fake refuses what the real servers do, and the reason arrives.
func TestRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		m, _ := serve(t, api, fakellm.Config{Model: always(rich())})
		req := ask()
		req.Messages = append(req.Messages, tree.Message{Role: tree.RoleAssistant, Blocks: rich().Blocks})
		_, err := m.Generate(t.Context(), req, nil)
		var failed *model.Error
		if !errors.As(err, &failed) || failed.Kind != model.ErrorInvalid || !strings.Contains(err.Error(), "a conversation ends with") {
			t.Errorf("answered %v", err)
		}
	})
}

// TestInventedNames: a call of a tool of an impossible name, which was closed with an
// error, does not end the conversation, though the servers refuse such names.
func TestInventedNames(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		m, _ := serve(t, api, fakellm.Config{Model: always(rich())})
		for _, name := range []string{"multi_tool_use.parallel", "", "läs", strings.Repeat("n", 65)} {
			req := ask()
			req.Messages = append(req.Messages,
				tree.Message{Role: tree.RoleAssistant, Blocks: []tree.Block{tree.ToolUse{ProviderID: "c", Name: name}}},
				tree.Message{Role: tree.RoleTool, Blocks: []tree.Block{tree.ToolResult{Text: "there is no such tool", IsError: true}}},
			)
			if _, err := m.Generate(t.Context(), req, nil); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
	server := httptest.NewServer(fakellm.New(fakellm.Config{Model: always(rich())}))
	t.Cleanup(server.Close)
	body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"},` +
		`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"a.b","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"no"}]}`
	resp, err := server.Client().Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a request with such a name is answered %s", resp.Status)
	}
}

// TestMuchThinking: the bound of an answer leaves room for it, however much a model may
// think before.
func TestMuchThinking(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(fakellm.New(fakellm.Config{Model: always(rich())}))
	t.Cleanup(server.Close)
	client := upstream.NewClient(upstream.DefaultTimeouts())
	t.Cleanup(client.CloseIdleConnections)
	for _, tokens := range []int64{1024, 31_999, 32_000, 100_000} {
		m, err := anthropic.New(anthropic.Config{
			Key: "k", BaseURL: server.URL, Model: "claude-fake", HTTP: client, Thinking: anthropic.Thinking{Tokens: tokens},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Generate(t.Context(), ask(), nil); err != nil {
			t.Errorf("%d tokens: %v", tokens, err)
		}
	}
}

// TestNewsStayNews: what tells of a child's end is told apart from what a user says,
// though both wires put them together.
func TestNewsStayNews(t *testing.T) {
	t.Parallel()
	child, err := tree.ParseID[tree.Task]("01a1fe20-edf6-7071-86dc-6f3b0c71e3c1")
	if err != nil {
		t.Fatal(err)
	}
	news := tree.Outcome{Run: tree.Run{Task: child}}.News(&tree.Task{Agent: "explore"})
	each(t, func(t *testing.T, api string) {
		var heard []string
		m, _ := serve(t, api, fakellm.Config{Model: says(func(req *model.Request) (*model.Answer, error) {
			for _, m := range req.Messages {
				heard = append(heard, fmt.Sprintf("%t %s", m.News.Task == child, m.Text()))
			}
			return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "ok"}}, Stop: tree.StopEndTurn}, nil
		})})
		req := ask()
		req.Messages = nil
		for _, text := range []string{"a\n\nb", news, news, "c"} {
			req.Messages = append(req.Messages, tree.Message{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: text}}})
		}
		if _, err := m.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		if want := []string{"false a\n\nb", "true " + news, "true " + news, "false c"}; !slices.Equal(heard, want) {
			t.Errorf("got  %q\nwant %q", heard, want)
		}
	})
}

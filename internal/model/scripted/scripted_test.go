package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/tree"
)

func parse(t *testing.T, source string) *scripted.Model {
	t.Helper()
	s, err := scripted.Parse("test.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return scripted.New(s)
}

func used(name, input string) tree.ToolUse {
	return tree.ToolUse{Name: name, Input: json.RawMessage(input)}
}

func calls(blocks ...tree.Block) tree.Message {
	return tree.Message{Role: tree.RoleAssistant, Blocks: blocks}
}

func results(blocks ...tree.Block) tree.Message {
	return tree.Message{Role: tree.RoleTool, Blocks: blocks}
}

func text(t *testing.T, m *scripted.Model, req *model.Request) string {
	t.Helper()
	answer, err := m.Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	return (&tree.Message{Blocks: answer.Blocks}).Text()
}

func TestMatching(t *testing.T) {
	t.Parallel()
	m := parse(t, `
steps:
  - {when: {agent: 'ex*', depth: 2..}, text: deep}
  - {when: {agent: 'ex*', depth: ..1}, text: shallow}
  - {when: {model: big-*}, text: big}
  - {when: {turn: 3, since_user: 1}, text: asked again}
  - {when: {turn: 3..4}, text: later}
  - {when: {prompt: 'weather in (\w+)', last: '(?P<what>rain|sun)'}, text: '{{group 1}}: {{group "what"}}, {{group 2}}'}
  - {when: {last: ^secret$}, text: ssh}
  - {when: {if: 'hasTool "ls"'}, text: tools}
  - {when: {prompt: ^hello}, text: hi}
`)
	assistant := calls(tree.Text{Text: "hm"})
	for _, test := range []struct {
		name string
		req  model.Request
		want string
	}{
		{"agent and low depth", model.Request{Agent: "explore", Depth: 1}, "shallow"},
		{"agent and high depth", model.Request{Agent: "explore", Depth: 2}, "deep"},
		{"model", model.Request{Model: "big-1"}, "big"},
		{"turn", model.Request{Messages: []tree.Message{said("x"), assistant, results(), assistant, results()}}, "later"},
		{"since user", model.Request{Messages: []tree.Message{said("x"), assistant, said("y"), assistant, said("z")}}, "asked again"},
		{"groups", model.Request{Messages: []tree.Message{said("the weather in Oslo"), assistant, results(tree.ToolResult{Text: "much rain"})}}, "Oslo: rain, rain"},
		{"last of several results", model.Request{Messages: []tree.Message{said("x"), calls(used("a", "{}"), used("b", "{}")), results(tree.ToolResult{Text: "a sun"}, tree.ToolResult{Block: 1, Text: "b"}), assistant, said("secret")}}, "asked again"},
		{"last", model.Request{Messages: []tree.Message{said("secret")}}, "ssh"},
		{"condition", model.Request{Tools: []model.ToolSpec{{Name: "ls"}}}, "tools"},
		{"first that matches", model.Request{Messages: []tree.Message{said("hello")}}, "hi"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := text(t, m, &test.req); got != test.want {
				t.Errorf("answered %q, not %q", got, test.want)
			}
		})
	}
}

func TestNoStepMatches(t *testing.T) {
	t.Parallel()
	m := parse(t, "steps:\n- {when: {turn: 9}, text: x}\n")
	req := &model.Request{Agent: "lost", Depth: 1, Messages: []tree.Message{said("where am I?")}}
	_, err := m.Generate(t.Context(), req, nil)
	want := `model invalid request: test.yaml: no step for agent "lost" at depth 1, turn 1 (1 since the last user message); the last text is "where am I?"`
	var refused *model.Error
	if !errors.As(err, &refused) || refused.Kind != model.ErrorInvalid || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	m := parse(t, `
model: tester
vars: {names: 'lines (result "ls" 0)'}
steps:
  - thinking: Hmm.
    text: |-
      Two & more:
      {{join ", " (var "names")}}
    calls:
      - tool: read
        for_each: var "names"
        input: {path: '{{.Item}} <{{.N}}>', limit: 5, deep: [true, null, 1.5, {z: '{{$.Depth}}', a: plain}]}
      - tool: '{{.Agent}}_tool'
      - {tool: raw, input: '{"n": {{len (var "names")}}}'}
    usage: {input: 7, cache_read: 3}
`)
	req := &model.Request{Agent: "x", Depth: 4, Messages: []tree.Message{
		said("go"), calls(used("ls", `{"path": "."}`)), results(tree.ToolResult{Text: "a\nb"}),
	}}
	answer, err := m.Generate(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &model.Answer{
		Model: "tester",
		Blocks: []tree.Block{
			tree.Thinking{Text: "Hmm."},
			tree.Text{Text: "Two & more:\na, b"},
			tree.ToolUse{ProviderID: "call_2_1", Name: "read", Input: json.RawMessage(`{"path":"a <0>","limit":5,"deep":[true,null,1.5,{"z":"4","a":"plain"}]}`)},
			tree.ToolUse{ProviderID: "call_2_2", Name: "read", Input: json.RawMessage(`{"path":"b <1>","limit":5,"deep":[true,null,1.5,{"z":"4","a":"plain"}]}`)},
			tree.ToolUse{ProviderID: "call_2_3", Name: "x_tool", Input: json.RawMessage(`{}`)},
			tree.ToolUse{ProviderID: "call_2_4", Name: "raw", Input: json.RawMessage(`{"n":2}`)},
		},
		Usage: tree.Usage{Input: 7, Output: 47, CacheRead: 3},
		Stop:  tree.StopToolUse,
	}
	if !reflect.DeepEqual(answer, want) {
		t.Errorf("answered\n%s\nnot\n%s", show(answer), show(want))
	}
}

func show(a *model.Answer) string {
	s := fmt.Sprintf("%s %+v %v\n", a.Model, a.Usage, a.Stop)
	for _, b := range a.Blocks {
		s += fmt.Sprintf("%T %+v", b, b)
		if use, ok := b.(tree.ToolUse); ok {
			s += " " + string(use.Input)
		}
		s += "\n"
	}
	return s
}

func TestUsageAndStop(t *testing.T) {
	t.Parallel()
	req := &model.Request{
		System:   strings.Repeat("s", 10),
		Tools:    []model.ToolSpec{{Name: "t", Description: "d", Schema: json.RawMessage("{}")}},
		Messages: []tree.Message{said(strings.Repeat("p", 3))},
	}
	for source, want := range map[string]model.Answer{
		"{text: '12345'}":                        {Usage: tree.Usage{Input: 5, Output: 2}, Stop: tree.StopEndTurn},
		"{calls: [{tool: abc}]}":                 {Usage: tree.Usage{Input: 5, Output: 2}, Stop: tree.StopToolUse},
		"{text: x, stop: max_tokens}":            {Usage: tree.Usage{Input: 5, Output: 1}, Stop: tree.StopMaxTokens},
		"{text: x, stop: refusal}":               {Usage: tree.Usage{Input: 5, Output: 1}, Stop: tree.StopRefusal},
		"{text: x, usage: {output: 9}}":          {Usage: tree.Usage{Input: 5, Output: 9}, Stop: tree.StopEndTurn},
		"{text: x, usage: {input: 0}}":           {Usage: tree.Usage{Output: 1}, Stop: tree.StopEndTurn},
		"{text: x, usage: {cache_write: 4}}":     {Usage: tree.Usage{Input: 5, Output: 1, CacheWrite: 4}, Stop: tree.StopEndTurn},
		"{calls: [{tool: abc}], stop: end_turn}": {Usage: tree.Usage{Input: 5, Output: 2}, Stop: tree.StopEndTurn},
	} {
		answer, err := parse(t, "steps: ["+source+"]").Generate(t.Context(), req, nil)
		if err != nil || answer.Usage != want.Usage || answer.Stop != want.Stop {
			t.Errorf("%s: got %+v, %v", source, answer, err)
		}
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	m := parse(t, `
steps:
  - when: {prompt: once}
    error: {kind: rate_limited, message: 'slow down, {{.Agent}}', retry_after: 3s, times: 2}
  - {when: {prompt: once}, text: fine now}
  - {when: {prompt: broken}, text: half an ans, error: {kind: broken}}
  - {when: {prompt: always}, error: {kind: auth, message: no}}
`)
	ask := func(prompt string, task tree.TaskID) (streamed string, err error) {
		req := &model.Request{Agent: "a", Task: task, Messages: []tree.Message{said(prompt)}}
		_, err = m.Generate(t.Context(), req, func(d model.Delta) { streamed += d.Text })
		return streamed, err
	}
	for _, task := range []tree.TaskID{{1}, {2}} {
		for i := range 4 {
			_, err := ask("once", task)
			var limited *model.Error
			if again := errors.As(err, &limited); again != (i < 2) {
				t.Fatalf("time %d: %v", i, err)
			}
			if limited != nil && (limited.RetryAfter != 3*time.Second || err.Error() != "model rate limited: slow down, a") {
				t.Errorf("got %v, retry after %v", err, limited.RetryAfter)
			}
		}
	}
	if streamed, err := ask("broken", tree.TaskID{}); streamed != "half an ans" || err == nil || err.Error() != "model broken off: the scenario says so" {
		t.Errorf("got %q and %v", streamed, err)
	}
	for range 3 {
		if _, err := ask("always", tree.TaskID{}); err == nil || err.Error() != "model not authorised: no" {
			t.Errorf("got %v", err)
		}
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, `
stream: {chunk: 4, every: 1s}
steps:
  - {thinking: 'so so', text: 'grün, grün', delay: '{{add 1 1}}m'}
`)
		start := time.Now()
		var got []string
		_, err := m.Generate(t.Context(), &model.Request{}, func(d model.Delta) {
			got = append(got, fmt.Sprintf("%v %v %s", time.Since(start), d.Thinking, d.Text))
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"2m0s true so s", "2m1s true o", "2m2s false grün", "2m3s false , gr", "2m4s false ün"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("streamed %q, not %q", got, want)
		}
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"delay":  "steps: [{text: x, delay: 1h}]",
		"stream": "steps: [{text: xyz, stream: {chunk: 1, every: 1h}}]",
		"error":  "steps: [{error: {kind: broken}, delay: 1h}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := parse(t, source)
				ctx, cancel := context.WithCancelCause(t.Context())
				enough := errors.New("enough")
				time.AfterFunc(time.Minute, func() { cancel(enough) })
				start := time.Now()
				_, err := m.Generate(ctx, &model.Request{}, nil)
				if !errors.Is(err, enough) || time.Since(start) != time.Minute {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
				if _, err := m.Generate(ctx, &model.Request{}, nil); !errors.Is(err, enough) {
					t.Errorf("on an ended context: %v", err)
				}
			})
		})
	}
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	m := parse(t, `
vars: {who: 'upper .Agent'}
steps:
  - {when: {agent: 'f*'}, error: {kind: broken, times: 1}}
  - {text: '{{var "who"}} {{.Prompt}}'}
`)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			agent := fmt.Sprintf("a%d", i)
			req := &model.Request{Agent: agent, Messages: []tree.Message{said("p")}}
			if answer, err := m.Generate(t.Context(), req, nil); err != nil || answer.Blocks[0] != (tree.Text{Text: strings.ToUpper(agent) + " p"}) {
				t.Errorf("%s: %v, %v", agent, answer, err)
			}
			req.Agent, req.Task = "f", tree.TaskID{byte(i)}
			if _, err := m.Generate(t.Context(), req, nil); err == nil {
				t.Error("no error at first")
			}
		})
	}
	all.Wait()
}

// TestOneAfterAnother: an answer depends on no earlier request, not even on one that failed while a
// var was computed.
func TestOneAfterAnother(t *testing.T) {
	t.Parallel()
	m := parse(t, `
vars:
  said: 'printf "%s of %d results" .Prompt (len (results "*"))'
  must: 'printf "%s, %s" (result "ls" 0) (var "said")'
steps:
  - when: {prompt: '^(need) (\w+)'}
    text: '{{var "must"}}, {{group 2}}'
  - text: '{{var "said"}}, {{with .Item}}{{.}}{{end}}{{.N}}{{len allNews}}'
`)
	listed := []tree.Message{calls(used("ls", `{}`)), results(tree.ToolResult{Text: "a file"})}
	for range 3 {
		for _, c := range []struct {
			prompt string
			then   []tree.Message
			want   string
		}{
			{"need one", listed, "a file, need one of 1 results, one"},
			{"need two", nil, ""},
			{"three", nil, "three of 0 results, 00"},
			{"four", listed, "four of 1 results, 00"},
		} {
			req := &model.Request{Messages: append([]tree.Message{said(c.prompt)}, c.then...)}
			answer, err := m.Generate(t.Context(), req, nil)
			if c.want == "" {
				if err == nil || !strings.Contains(err.Error(), "no result 0") {
					t.Errorf("%s: %v", c.prompt, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := (&tree.Message{Blocks: answer.Blocks}).Text(); got != c.want {
				t.Errorf("%s: %q", c.prompt, got)
			}
		}
	}
}

// The example in the documentation plays as it says.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, example)
		req := &model.Request{Messages: []tree.Message{said("go")}}
		answer, err := m.Generate(t.Context(), req, nil)
		if err != nil || len(answer.Blocks) != 3 {
			t.Fatalf("got %+v, %v", answer, err)
		}
		helper := text(t, m, &model.Request{Depth: 1, Messages: []tree.Message{said("How many pears are there?")}})
		if !strings.HasSuffix(helper, " pears.") {
			t.Errorf("the helper says %q", helper)
		}
		summary := tree.ToolResult{Text: `{"summary":"There are 3 pears."}`}
		first, second := summary, summary
		first.Block, second.Block = 1, 2
		req.Messages = append(req.Messages, calls(answer.Blocks...), results(first, second))
		want := "2 helpers answered:\n\n- There are 3 pears.\n- There are 3 pears."
		if got := text(t, m, req); got != want {
			t.Errorf("the root says %q, not %q", got, want)
		}
	})
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("\ufeffabout: A test.\nsteps: [{text: hi}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scripted.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, scripted.New(s), &model.Request{}); got != "hi" || s.About != "A test." {
		t.Errorf("got %q, about %q", got, s.About)
	}
	if _, err := scripted.Load(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// said is a message of a role.
func said(role tree.Role, blocks ...tree.Block) tree.Message {
	return tree.Message{Role: role, Blocks: blocks}
}

const marker = `"cache_control":{"type":"ephemeral"}`

func TestRequests(t *testing.T) {
	t.Parallel()
	use := tree.ToolUse{ProviderID: "c1", Name: "ls", Input: json.RawMessage(`{"path":"."}`)}
	for _, test := range []struct {
		name string
		req  model.Request
		want string
	}{
		{
			"a question",
			model.Request{Messages: []tree.Message{said(tree.RoleUser, tree.Text{Text: "hi"})}},
			`{"max_tokens":32000,"messages":[{"content":[{"text":"hi",MARK,"type":"text"}],"role":"user"}],"model":"m"}`,
		},
		{
			"system, tools, and another model",
			model.Request{
				Model: "n", System: "be", Messages: []tree.Message{said(tree.RoleUser, tree.Text{Text: "hi"})},
				Tools: []model.ToolSpec{{Name: "a", Description: "A", Schema: json.RawMessage(`{"type":"object","x":1}`)}, {Name: "b", Schema: json.RawMessage(`{}`)}},
			},
			`{"max_tokens":32000,"messages":[{"content":[{"text":"hi",MARK,"type":"text"}],"role":"user"}],"model":"n",` +
				`"system":[{"text":"be",MARK,"type":"text"}],` +
				`"tools":[{"input_schema":{"type":"object","x":1},"name":"a","description":"A"},{"input_schema":{},"name":"b","description":"",MARK}]}`,
		},
		{
			"calls, results and reasoning; the reminder is behind the marks",
			model.Request{Reminder: "mind", Messages: []tree.Message{
				said(tree.RoleUser, tree.Text{Text: "hi"}),
				said(tree.RoleAssistant, tree.Thinking{Text: "hm", Signature: "s"}, tree.Thinking{Signature: redactedPrefix + "d"}, tree.Thinking{Text: "another's"}, tree.Text{Text: "ok"}, use),
				said(tree.RoleTool, tree.ToolResult{Block: 4, Text: "no", IsError: true}),
			}},
			`{"max_tokens":32000,"messages":[{"content":[{"text":"hi",MARK,"type":"text"}],"role":"user"},` +
				`{"content":[{"signature":"s","thinking":"hm","type":"thinking"},{"data":"d","type":"redacted_thinking"},{"text":"ok","type":"text"},` +
				`{"id":"c1","input":{"path":"."},"name":"ls","type":"tool_use"}],"role":"assistant"},` +
				`{"content":[{"tool_use_id":"c1","is_error":true,MARK,"content":[{"text":"no","type":"text"}],"type":"tool_result"},{"text":"mind","type":"text"}],"role":"user"}],"model":"m"}`,
		},
		{
			"images and documents, and what can't be shown",
			model.Request{Messages: []tree.Message{
				said(tree.RoleUser, tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Data: []byte("png")}),
				said(tree.RoleAssistant, tree.Text{Text: "a"}, tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Data: []byte("png")}),
				said(tree.RoleUser,
					tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "application/pdf", Data: []byte("pdf")},
					tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "text/plain", Data: []byte("txt")},
					tree.Attachment{Kind: tree.AttachmentDocument, URL: "https://h/d"},
					tree.Attachment{Kind: tree.AttachmentImage, Name: "x", MediaType: "image/tiff", Data: []byte("tiff")},
					tree.Attachment{Kind: tree.AttachmentImage, URL: "https://h/i"},
				),
			}},
			`{"max_tokens":32000,"messages":[{"content":[{"source":{"data":"cG5n","media_type":"image/png","type":"base64"},MARK,"type":"image"}],"role":"user"},` +
				`{"content":[{"text":"a","type":"text"}],"role":"assistant"},{"content":[{"source":{"data":"cGRm","media_type":"application/pdf","type":"base64"},"type":"document"},` +
				`{"source":{"data":"txt","media_type":"text/plain","type":"text"},"type":"document"},{"source":{"url":"https://h/d","type":"url"},"type":"document"},` +
				`{"text":"[an image, x, image/tiff, 4 bytes: it can't be shown here]","type":"text"},{"source":{"url":"https://h/i","type":"url"},MARK,"type":"image"}],"role":"user"}],"model":"m"}`,
		},
		{
			"an assistant of which only another's reasoning is there",
			model.Request{Messages: []tree.Message{
				said(tree.RoleUser, tree.Text{Text: "hi"}), said(tree.RoleAssistant, tree.Thinking{Text: "x"}, tree.Text{Text: "a"}), said(tree.RoleUser, tree.Text{Text: "b"}),
			}},
			`{"max_tokens":32000,"messages":[{"content":[{"text":"hi",MARK,"type":"text"}],"role":"user"},{"content":[{"text":"a","type":"text"}],"role":"assistant"},` +
				`{"content":[{"text":"b",MARK,"type":"text"}],"role":"user"}],"model":"m"}`,
		},
		{
			"reasoning that nothing follows",
			model.Request{Messages: []tree.Message{
				said(tree.RoleUser, tree.Text{Text: "hi"}), said(tree.RoleAssistant, tree.Thinking{Text: "x", Signature: "s"}, tree.Text{Text: " "}, tree.Thinking{Signature: redactedPrefix + "d"}),
				said(tree.RoleUser, tree.Text{Text: "so?"}), said(tree.RoleAssistant, tree.Thinking{Text: "y", Signature: "t"}, tree.Text{Text: "a"}, tree.Thinking{Text: "z", Signature: "u"}),
				said(tree.RoleUser, tree.Text{Text: "b"}),
			}},
			`{"max_tokens":32000,"messages":[{"content":[{"text":"hi","type":"text"},{"text":"so?",MARK,"type":"text"}],"role":"user"},` +
				`{"content":[{"signature":"t","thinking":"y","type":"thinking"},{"text":"a","type":"text"}],"role":"assistant"},` +
				`{"content":[{"text":"b",MARK,"type":"text"}],"role":"user"}],"model":"m"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(Config{Model: "m"}.params(&test.req))
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(test.want, "MARK", marker); string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestThinking(t *testing.T) {
	t.Parallel()
	for how, want := range map[Thinking]string{
		{}:               "",
		{Adaptive: true}: fmt.Sprintf(`{"display":%q,"type":"adaptive"}`, sdk.ThinkingConfigAdaptiveDisplaySummarized),
		{Tokens: 2048}:   `{"budget_tokens":2048,"type":"enabled"}`,
	} {
		got, err := json.Marshal(Config{Model: "m", Thinking: how}.params(&model.Request{}))
		if err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(string(got), `"thinking"`); has != (want != "") || !strings.Contains(string(got), want) {
			t.Errorf("%+v: %s", how, got)
		}
	}
}

// TestThinkingFromItsStart: a model reasons in a turn with calls only if it did so from the start of
// the turn. The provider refuses the request otherwise.
func TestThinkingFromItsStart(t *testing.T) {
	t.Parallel()
	user, results := said(tree.RoleUser, tree.Text{Text: "hi"}), said(tree.RoleTool, tree.ToolResult{Block: 1})
	calls := func(first tree.Block) tree.Message { return said(tree.RoleAssistant, first, tree.ToolUse{Name: "ls"}) }
	own, plain, foreign := calls(tree.Thinking{Text: "hm", Signature: "s"}), calls(tree.Text{Text: "I look."}), calls(tree.Thinking{Text: "hm"})
	redacted := calls(tree.Thinking{Signature: redactedPrefix + "d"})
	for name, c := range map[string]struct {
		messages []tree.Message
		want     bool
	}{
		"a new turn":                 {[]tree.Message{user}, true},
		"after a turn without":       {[]tree.Message{user, plain, results, said(tree.RoleAssistant, tree.Text{Text: "a"}), user}, true},
		"from the start":             {[]tree.Message{user, own, results}, true},
		"from the start, hidden":     {[]tree.Message{user, redacted, results}, true},
		"from the start, later none": {[]tree.Message{user, own, results, plain, results}, true},
		"not from the start":         {[]tree.Message{user, plain, results}, false},
		"only later":                 {[]tree.Message{user, plain, results, own, results}, false},
		"another provider's":         {[]tree.Message{user, foreign, results}, false},
		"another provider's, later":  {[]tree.Message{user, own, results, foreign, results}, false},
	} {
		got := Config{Model: "claude-opus-4-5", Thinking: Thinking{Tokens: 2048}}.params(&model.Request{Messages: c.messages})
		if thinks := got.Thinking.OfEnabled != nil; thinks != c.want {
			t.Errorf("%s: %t", name, thinks)
		}
	}
}

// TestThinkingLeavesRoom: reasoning comes on top of the answer, as far as the model can
// write that much; half of what it can is the answer's, if it is to have that much.
func TestThinkingLeavesRoom(t *testing.T) {
	t.Parallel()
	adaptive := Thinking{Adaptive: true}
	tokens := func(n int64) Thinking { return Thinking{Tokens: n} }
	for _, test := range []struct {
		model string
		how   Thinking
		want  int64
		least int64 // of it for the answer
	}{
		{"m", Thinking{}, 32_000, 32_000},
		{"m", adaptive, 32_000, 32_000},
		{"m", tokens(2000), 34_000, 32_000},
		{"m", tokens(100_000), 132_000, 32_000},
		{"claude-opus-4-6", tokens(40_000), 72_000, 32_000},
		{"claude-sonnet-4-6", tokens(40_000), 72_000, 32_000},
		{"claude-sonnet-4-5-20250929", tokens(32_000), 64_000, 32_000},
		{"claude-sonnet-4-5-20250929", tokens(40_000), 64_000, 32_000},
		{"claude-opus-4-5", tokens(40_000), 64_000, 32_000},
		{"claude-haiku-4-5", tokens(64_000), 64_000, 32_000},
		{"claude-opus-4-1-20250805", tokens(10_000), 32_000, 22_000},
		{"claude-opus-4-20250514", tokens(10_000), 32_000, 22_000},
		{"claude-opus-4-1-20250805", tokens(31_999), 32_000, 16_000},
		{"claude-opus-4-1-20250805", tokens(40_000), 32_000, 16_000},
	} {
		p := Config{Model: test.model, Thinking: test.how}.params(&model.Request{})
		answer := p.MaxTokens
		if on := p.Thinking.OfEnabled; on != nil {
			answer -= on.BudgetTokens
		}
		if p.MaxTokens != test.want || answer != test.least {
			t.Errorf("%s, %+v: max_tokens is %d, %d of it for the answer, want %d", test.model, test.how, p.MaxTokens, answer, test.want)
		}
	}
}

// TestCachedPrefixes: what a request marks is where the next one begins, whatever
// was reminded of.
func TestCachedPrefixes(t *testing.T) {
	t.Parallel()
	var all []tree.Message
	before := ""
	for i := range 5 {
		all = append(all,
			said(tree.RoleUser, tree.Text{Text: fmt.Sprint("q", i)}),
			said(tree.RoleAssistant, tree.ToolUse{ProviderID: "x", Name: "ls", Input: json.RawMessage(`{}`)}),
			said(tree.RoleTool, tree.ToolResult{Block: 0, Text: "r"}),
		)
		got, err := json.Marshal(Config{Model: "m"}.params(&model.Request{Messages: all, Reminder: fmt.Sprint("now ", i)}).Messages)
		if err != nil {
			t.Fatal(err)
		}
		plain := strings.ReplaceAll(strings.ReplaceAll(string(got), marker+",", ""), ","+marker, "")
		marked := string(got[:strings.LastIndex(string(got), marker)])
		prefix := strings.ReplaceAll(strings.ReplaceAll(marked, marker+",", ""), ","+marker, "")
		if !strings.HasPrefix(plain, before) {
			t.Fatalf("request %d does not begin with\n%s\nbut is\n%s", i, before, plain)
		}
		before = prefix
	}
}

// TestLostThoughts: reasoning can't go on from what can't go back, until the turn is
// over.
func TestLostThoughts(t *testing.T) {
	t.Parallel()
	call := func(thought tree.Thinking) tree.Message {
		return said(tree.RoleAssistant, thought, tree.ToolUse{ProviderID: "c", Name: "ls", Input: json.RawMessage("{}")})
	}
	sealed, open := tree.Thinking{Text: "a", Signature: "s"}, tree.Thinking{Text: "a"}
	user, result := said(tree.RoleUser, tree.Text{Text: "b"}), said(tree.RoleTool, tree.ToolResult{Block: 1, Text: "r"})
	for name, test := range map[string]struct {
		messages []tree.Message
		thinks   bool
	}{
		"all is there":       {[]tree.Message{user, call(sealed), result}, true},
		"one is lost":        {[]tree.Message{user, call(open), result}, false},
		"an earlier is lost": {[]tree.Message{user, call(open), result, call(sealed), result}, false},
		"the turn is over":   {[]tree.Message{user, call(open), result, said(tree.RoleAssistant, tree.Text{Text: "x"}), user}, true},
	} {
		p := Config{Model: "m", Thinking: Thinking{Tokens: 2000}}.params(&model.Request{Messages: test.messages})
		if got := p.Thinking.OfEnabled != nil; got != test.thinks {
			t.Errorf("%s: it thinks: %t", name, got)
		}
		if got := p.MaxTokens > defaultMaxTokens; got != test.thinks {
			t.Errorf("%s: max_tokens is %d", name, p.MaxTokens)
		}
		p = Config{Model: "m", Thinking: Thinking{Adaptive: true}}.params(&model.Request{Messages: test.messages})
		if p.Thinking.OfAdaptive == nil {
			t.Errorf("%s: it does not think by itself", name)
		}
	}
}

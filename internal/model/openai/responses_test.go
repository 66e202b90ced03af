package openai

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestResponsesRequests(t *testing.T) {
	t.Parallel()
	hi := says(tree.RoleUser, tree.Text{Text: "hi"})
	thought := tree.Thinking{Text: "hm", Signature: "openai:rs_1:c2VhbGVk"}
	call := tree.ToolUse{ProviderID: "c", Name: "ls", Input: json.RawMessage(`{}`)}
	result := says(tree.RoleTool, tree.ToolResult{Block: 1, Text: "r", IsError: true})
	const (
		sealed = `{"id":"rs_1","summary":[{"text":"hm","type":"summary_text"}],"encrypted_content":"c2VhbGVk","type":"reasoning"},`
		called = `{"arguments":"{}","call_id":"c","name":"ls","type":"function_call"},{"output":"Error: r","call_id":"c","type":"function_call_output"}`
		asked  = `{"content":[{"text":"hi","type":"input_text"}],"role":"user"},`
		rest   = `],"model":"m"}`
	)
	for name, test := range map[string]struct {
		config Config
		req    model.Request
		want   string
	}{
		"a question and a tool": {
			Config{Effort: "low"}, model.Request{
				System: "be", Model: "n", Messages: []tree.Message{hi}, Reminder: "mind",
				Tools: []model.ToolSpec{{Name: "a", Description: "A", Schema: json.RawMessage(`{"type":"object"}`)}},
			},
			`{"instructions":"be","store":false,"include":["reasoning.encrypted_content"],` +
				`"input":[{"content":[{"text":"hi","type":"input_text"},{"text":"mind","type":"input_text"}],"role":"user"}],"model":"n","reasoning":{"effort":"low"},` +
				`"tools":[{"strict":false,"parameters":{"type":"object"},"name":"a","description":"A","type":"function"}]}`,
		},
		"reasoning goes back before its call": {
			Config{}, model.Request{Messages: []tree.Message{hi, says(tree.RoleAssistant, thought, call), result}},
			`{"store":false,"include":["reasoning.encrypted_content"],"input":[` + asked + sealed + called + rest,
		},
		"what was said before calls is no answer": {
			Config{}, model.Request{Messages: []tree.Message{
				hi, says(tree.RoleAssistant, tree.Text{Text: "I look."}, call), result, says(tree.RoleAssistant, tree.Text{Text: "Done."}), hi,
			}},
			`{"store":false,"include":["reasoning.encrypted_content"],"input":[` + asked + `{"content":"I look.","role":"assistant","phase":"commentary"},` + called +
				`,{"content":"Done.","role":"assistant","phase":"final_answer"},` + strings.TrimSuffix(asked, ",") + rest,
		},
		"of which other servers know nothing": {
			Config{BaseURL: "http://h/v1"}, model.Request{Messages: []tree.Message{hi, says(tree.RoleAssistant, tree.Text{Text: "I look."}, call), result}},
			`{"store":false,"include":["reasoning.encrypted_content"],"input":[` + asked + `{"content":"I look.","role":"assistant"},` + called + rest,
		},
		"not that of others, nor what has led to nothing": {
			Config{}, model.Request{Messages: []tree.Message{
				hi, says(tree.RoleAssistant, tree.Thinking{Text: "x", Signature: "anthropic's"}, call, tree.Thinking{Text: "y"}, thought), result,
			}},
			`{"store":false,"include":["reasoning.encrypted_content"],"input":[` + asked + called + rest,
		},
		"nor where it was refused": {
			Config{omission: omission{thinking: conversation.RejectedThinking{UpTo: thought.Signature}}}, model.Request{Messages: []tree.Message{hi, says(tree.RoleAssistant, thought, call), result}},
			`{"store":false,"include":["reasoning.encrypted_content"],"input":[` + asked + called + rest,
		},
		"nor to a model that does none": {
			Config{quirks: quirks{noEncryptedReasoning: true}}, model.Request{Messages: []tree.Message{hi, says(tree.RoleAssistant, thought, call), result}},
			`{"store":false,"input":[` + asked + called + rest,
		},
		"images and documents": {
			Config{quirks: quirks{noEncryptedReasoning: true}}, model.Request{Messages: []tree.Message{says(tree.RoleUser,
				tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Data: []byte("png")}, tree.Attachment{Kind: tree.AttachmentImage, URL: "https://h/i"},
				tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "application/pdf", Data: []byte("pdf")}, tree.Attachment{Kind: tree.AttachmentDocument, URL: "https://h/d"},
				tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "text/plain", Data: []byte("txt")},
			)}},
			`{"store":false,"input":[{"content":[{"detail":"auto","image_url":"data:image/png;base64,cG5n","type":"input_image"},` +
				`{"detail":"auto","image_url":"https://h/i","type":"input_image"},{"file_data":"data:application/pdf;base64,cGRm","filename":"document.pdf","type":"input_file"},` +
				`{"file_url":"https://h/d","type":"input_file"},{"text":"txt","type":"input_text"}],"role":"user"}],"model":"m"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.config.Model = "m"
			p, err := test.config.responseParams(&test.req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// steps makes a stream of events.
func steps(events ...string) server {
	return server{status: http.StatusOK, body: "data: " + strings.Join(events, "\n\ndata: ") + "\n\n"}
}

func TestResponsesAnswers(t *testing.T) {
	t.Parallel()
	const (
		thinking = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}],"encrypted_content":"e"}`
		text     = `{"type":"message","id":"m","role":"assistant","content":[{"type":"output_text","text":"there"}]}`
		declined = `{"type":"message","id":"m","role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`
		call     = `{"type":"function_call","id":"f","call_id":"c","name":"ls","arguments":"{}"}`
		status   = `"model":"x","usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":3},"status":`
	)
	ends := func(how, more string, items ...string) string {
		return `{"type":"response.` + how + `","response":{` + status + `"` + how + `"` + more + `,"output":[` + strings.Join(items, ",") + `]}}`
	}
	failed := func(code string) string {
		return `{"type":"response.failed","response":{"error":{"code":"` + code + `","message":"m"}}}`
	}
	sealed := tree.Thinking{Text: "a\n\nb", Signature: "openai:rs_1:e"}
	for name, test := range map[string]struct {
		stream server
		stop   tree.StopReason
		want   []tree.Block
		err    model.ErrorKind
	}{
		"an answer":            {steps(ends("completed", "", thinking, text)), tree.StopEndTurn, []tree.Block{sealed, tree.Text{Text: "there"}}, 0},
		"calls":                {steps(ends("completed", "", thinking, call)), tree.StopToolUse, []tree.Block{sealed, tree.ToolUse{ProviderID: "c", Name: "ls", Input: []byte(`{}`)}}, 0},
		"items came apart":     {steps(`{"type":"response.output_item.done","item":`+call+`}`, ends("completed", "")), tree.StopToolUse, []tree.Block{tree.ToolUse{ProviderID: "c", Name: "ls", Input: []byte(`{}`)}}, 0},
		"of an open model":     {steps(ends("completed", "", `{"type":"reasoning","id":"r","summary":[],"content":[{"type":"reasoning_text","text":"a"}]}`, text)), tree.StopEndTurn, []tree.Block{tree.Thinking{Text: "a"}, tree.Text{Text: "there"}}, 0},
		"a refusal":            {steps(ends("completed", "", call, declined)), tree.StopRefusal, []tree.Block{tree.Text{Text: "no"}}, 0},
		"a filter":             {steps(ends("incomplete", `,"incomplete_details":{"reason":"content_filter"}`, text, call)), tree.StopRefusal, []tree.Block{tree.Text{Text: "there"}}, 0},
		"cut while it thought": {steps(ends("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`, thinking)), tree.StopMaxTokens, []tree.Block{sealed}, 0},
		"cut in a call": {
			steps(ends("incomplete", `,"incomplete_details":{"reason":"max_output_tokens"}`, call)), tree.StopMaxTokens, []tree.Block{tree.ToolUse{ProviderID: "c", Name: "ls", Input: []byte(`{`)}}, 0,
		},
		"another reason":          {steps(ends("incomplete", `,"incomplete_details":{"reason":"news"}`, text)), tree.StopUnspecified, []tree.Block{tree.Text{Text: "there"}}, 0},
		"it failed":               {steps(`{"type":"response.failed","response":{"error":{"code":"server_error","message":"m"}}}`), 0, nil, model.ErrorOverloaded},
		"the rate limit":          {steps(`{"type":"error","code":"rate_limit_exceeded","message":"m"}`), 0, nil, model.ErrorRateLimited},
		"too long":                {steps(`{"type":"response.failed","response":{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model."}}}`), 0, nil, model.ErrorTooLong},
		"the prompt is refused":   {steps(failed("invalid_prompt")), 0, nil, model.ErrorInvalid},
		"for what it is about":    {steps(failed("bio_policy")), 0, nil, model.ErrorInvalid},
		"a bad image":             {steps(failed("image_parse_error")), 0, nil, model.ErrorInvalid},
		"without a plan":          {steps(failed("usage_not_included")), 0, nil, model.ErrorAuth},
		"it is to be slower":      {steps(failed("slow_down")), 0, nil, model.ErrorOverloaded},
		"a store was slow":        {steps(failed("vector_store_timeout")), 0, nil, model.ErrorBroken},
		"it failed for no reason": {steps(`{"type":"response.failed","response":{"error":null}}`), 0, nil, model.ErrorBroken},
		"an error apart":          {steps(`{"error":{"type":"server_error","message":"m"}}`), 0, nil, model.ErrorOverloaded},
		"it just ended":           {steps(`{"type":"response.output_item.done","item":` + text + `}`), 0, nil, model.ErrorBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := New(Config{Model: "m", BaseURL: "http://h/v1", HTTP: &http.Client{Transport: test.stream}, Responses: true})
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.Generate(t.Context(), &model.Request{Messages: []tree.Message{says(tree.RoleUser, tree.Text{Text: "hi"})}}, nil)
			failed, _ := errors.AsType[*model.Error](err)
			switch {
			case test.err != 0 && (failed == nil || failed.Kind != test.err):
				t.Errorf("answered %+v, %v", got, err)
			case test.err == 0 && err != nil:
				t.Error(err)
			case test.err != 0:
			case got.Stop != test.stop || !reflect.DeepEqual(got.Blocks, test.want) || got.Usage != tree.Usage{Input: 6, CacheRead: 4, Output: 3} || got.Model != "x":
				t.Errorf("answered %+v", got)
			}
		})
	}
}

// apart is a server that refuses some requests over either API.
type apart struct {
	asked   []string // for each request: the API, and what of it was there
	refusal func(said string) string
	answer  func(said string) server // instead, where it has a status
}

// seen is a request of a task that has an image and reasoning in it.
func seen(task tree.TaskID) *model.Request {
	return &model.Request{Task: task, Messages: []tree.Message{
		says(tree.RoleUser, tree.Text{Text: "hi"}, tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Data: []byte("png")}),
		says(tree.RoleAssistant, tree.Thinking{Signature: "openai:rs_1:e"}, tree.Text{Text: "there"}),
		says(tree.RoleUser, tree.Text{Text: "and?"}),
	}}
}

func (a *apart) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	said := req.URL.Path[strings.LastIndex(req.URL.Path, "/")+1:]
	for _, part := range []struct{ has, name string }{{`"include"`, " include"}, {`"encrypted_content":"e"`, " thoughts"}, {`input_image`, " image"}, {`effort`, " effort"}, {`"phase"`, " phase"}} {
		if strings.Contains(string(body), part.has) {
			said += part.name
		}
	}
	a.asked = append(a.asked, said)
	if a.answer != nil {
		if answer := a.answer(said); answer.status != 0 {
			return answer.RoundTrip(req)
		}
	} else if why := a.refusal(said); why != "" {
		return server{status: http.StatusBadRequest, body: `{"error":{"message":"` + why + `","type":"invalid_request_error"}}`}.RoundTrip(req)
	}
	if strings.HasPrefix(said, "completions") {
		return chunks("stop", `{"content":"ok"}`).RoundTrip(req)
	}
	return steps(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"ok"}]}]}}`).RoundTrip(req)
}

// TestResponsesRefusals: what a model refuses it is not asked again, and one that refuses all
// is asked over the older API, at OpenAI.
func TestResponsesRefusals(t *testing.T) {
	t.Parallel()
	where := func(part, why string) func(string) string {
		return func(said string) string {
			if strings.Contains(said, part) {
				return why
			}
			return ""
		}
	}
	const all = "responses include thoughts image phase"
	const effort = "responses include thoughts image effort phase"
	for name, test := range map[string]struct {
		base    string
		effort  string
		refusal func(string) string
		want    []string // the requests of two calls of one task
		err     string
	}{
		"nothing is refused": {"", "", where("nothing", ""), []string{all, all}, ""},
		"not the effort":     {"", "low", where("effort", "Unsupported parameter: 'reasoning.effort' is not supported with this model."), []string{effort, all, all}, ""},
		"the effort in the older API": {"", "xhigh", func(said string) string {
			switch {
			case strings.HasPrefix(said, "responses"):
				return "no such API"
			case strings.Contains(said, "effort"):
				return "Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model."
			}
			return ""
		}, []string{effort, "responses include thoughts effort phase", "completions effort", "completions", "completions"}, ""},
		"it does not reason":      {"", "", where("include", "Encrypted content is not supported with this model."), []string{all, "responses image phase", "responses image phase"}, ""},
		"another's reasoning":     {"", "", where("thoughts", "The encrypted content e could not be verified."), []string{all, "responses include image phase", "responses include image phase"}, ""},
		"lost reasoning":          {"", "", where("thoughts", "Item 'rs_1' of type 'reasoning' was provided without its required following item."), []string{all, "responses include image phase", "responses include image phase"}, ""},
		"reasoning not kept":      {"", "", where("thoughts", "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."), []string{all, "responses include image phase", "responses include image phase"}, ""},
		"the phase":               {"", "", where("phase", "Unknown parameter: 'input[1].phase'."), []string{all, "responses include thoughts image", "responses include thoughts image"}, ""},
		"the image":               {"", "", where("image", "no images"), []string{all, "responses include thoughts phase", "responses include thoughts phase"}, ""},
		"the API":                 {"", "", where("responses", "This model is only supported in v1/chat/completions."), []string{all, "completions", "completions"}, ""},
		"the API, in other words": {"", "", where("responses", "no"), []string{all, "responses include thoughts phase", "completions", "completions"}, ""},
		"both":                    {"", "", where("", "the model does not exist"), []string{all, "responses include thoughts phase", "completions", all, "responses include thoughts phase", "completions"}, "the model does not exist"},
		"the API elsewhere":       {"http://h/v1", "", where("responses", "no such model"), []string{"responses include thoughts", "responses include thoughts"}, "no such model"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := &apart{refusal: test.refusal}
			m, err := New(Config{Key: "k", Model: "m", BaseURL: test.base, HTTP: &http.Client{Transport: from}, Responses: true, Effort: test.effort})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				_, err := m.Generate(t.Context(), seen(tree.TaskID{1}), nil)
				if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
					t.Errorf("answered %v", err)
				}
			}
			if !reflect.DeepEqual(from.asked, test.want) {
				t.Errorf("asked %q\nwant  %q", from.asked, test.want)
			}
		})
	}
}

package openai

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// server answers every request with the same.
type server struct {
	status int
	body   string
	err    error // after the body, instead of its end
}

func (s server) RoundTrip(req *http.Request) (*http.Response, error) {
	body := io.Reader(strings.NewReader(s.body))
	if s.err != nil {
		body = io.MultiReader(body, iotest.ErrReader(s.err))
	}
	return &http.Response{
		StatusCode: s.status, Body: io.NopCloser(body), Request: req,
		Header: http.Header{"Content-Type": {"text/event-stream"}, "Retry-After": {"7"}},
	}, nil
}

func ask(t *testing.T, s server) (*model.Answer, error) {
	t.Helper()
	m, err := New(Config{Model: "m", BaseURL: "http://h/v1", HTTP: &http.Client{Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	return m.Generate(t.Context(), &model.Request{Messages: []tree.Message{says(tree.RoleUser, tree.Text{Text: "hi"})}}, nil)
}

// chunks makes a stream of the deltas given; the last one goes with the finish reason.
func chunks(finish string, deltas ...string) server {
	body := ""
	for i, d := range deltas {
		reason := "null"
		if i == len(deltas)-1 {
			reason = `"` + finish + `"`
		}
		body += `data: {"model":"x","choices":[{"index":0,"delta":` + d + `,"finish_reason":` + reason + "}]}\n\n"
	}
	return server{status: http.StatusOK, body: body + "data: [DONE]\n\n"}
}

// TestHabitsOfServers: what servers other than OpenAI's make of the stream.
func TestHabitsOfServers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stream server
		want   []tree.Block
		stop   tree.StopReason
	}{
		"all calls have the index 0, each is whole": {
			chunks("stop", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"id":"b","function":{"name":"ls","arguments":"{\"p\":1}"}}]}`),
			[]tree.Block{tree.ToolUse{ProviderID: "a", Name: "ls", Input: []byte(`{}`)}, tree.ToolUse{ProviderID: "b", Name: "ls", Input: []byte(`{"p":1}`)}}, tree.StopToolUse,
		},
		"the id and the name come with each piece": {
			chunks("tool_calls", `{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{\"p\""}}]}`, `{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":":1}"}}]}`),
			[]tree.Block{tree.ToolUse{ProviderID: "a", Name: "ls", Input: []byte(`{"p":1}`)}}, tree.StopToolUse,
		},
		"no ids, pieces of two calls mixed": {
			chunks("tool_calls", `{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":"{"}},{"index":1,"function":{"name":"glob"}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":"{}"}},{"index":0,"function":{"arguments":"}"}}]}`),
			[]tree.Block{tree.ToolUse{Name: "ls", Input: []byte(`{}`)}, tree.ToolUse{Name: "glob", Input: []byte(`{}`)}}, tree.StopToolUse,
		},
		"all calls have the index 0 and no id": {
			chunks("tool_calls", `{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":"{\"p\":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":"{\"p\""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"arguments":":2}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"glob","arguments":"{}"}}]}`),
			[]tree.Block{tree.ToolUse{Name: "ls", Input: []byte(`{"p":1}`)}, tree.ToolUse{Name: "ls", Input: []byte(`{"p":2}`)}, tree.ToolUse{Name: "glob", Input: []byte(`{}`)}}, tree.StopToolUse,
		},
		"no id, and the name comes with each piece": {
			chunks("tool_calls", `{"tool_calls":[{"index":0,"function":{"name":"ls"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":"{\"p\""}}]}`,
				`{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":":1}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"ls","arguments":""}}]}`),
			[]tree.Block{tree.ToolUse{Name: "ls", Input: []byte(`{"p":1}`)}}, tree.StopToolUse,
		},
		"reasoning under either name": {
			chunks("stop", `{"reasoning_content":"h"}`, `{"reasoning":"m"}`, `{"content":"ok"}`),
			[]tree.Block{tree.Thinking{Text: "hm"}, tree.Text{Text: "ok"}}, tree.StopEndTurn,
		},
		"content that is a list": {
			chunks("stop", `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"h"}]}]}`,
				`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"m"},{"type":"reference","reference_ids":[1]}]},{"type":"text","text":"The answer"},{"type":"reference","reference_ids":[1]}]}`,
				`{"content":" is 4"}`, `{"content":[]}`),
			[]tree.Block{tree.Thinking{Text: "hm"}, tree.Text{Text: "The answer is 4"}}, tree.StopEndTurn,
		},
		"text that begins like a list": {
			chunks("stop", `{"content":"[{\"type\":\"text\"}]"}`), []tree.Block{tree.Text{Text: `[{"type":"text"}]`}}, tree.StopEndTurn,
		},
		"a refusal": {
			chunks("stop", `{"refusal":"I'd rather not","tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":"{}"}}]}`),
			[]tree.Block{tree.Text{Text: "I'd rather not"}}, tree.StopRefusal,
		},
		"nothing": {chunks("stop", `{}`), nil, tree.StopEndTurn},
		"no blank line at the end": {
			server{status: http.StatusOK, body: strings.TrimSpace(chunks("stop", `{"content":"ok"}`).body)}, []tree.Block{tree.Text{Text: "ok"}}, tree.StopEndTurn,
		},
		"an error that is none": {
			server{status: http.StatusOK, body: `data: {"error":null,"model":"x","choices":[{"index":0,"delta":{"content":"an \"error\""}}]}` + "\n\n" +
				`data: {"model":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}], "error" : null }` + "\n\ndata: [DONE]\n\n"},
			[]tree.Block{tree.Text{Text: `an "error"`}}, tree.StopEndTurn,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := ask(t, test.stream)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(answer.Blocks, test.want) || answer.Stop != test.stop || answer.Model != "x" {
				t.Errorf("got %+v", answer)
			}
		})
	}
}

// TestEnds: how an answer ended decides what it is; a call that may have been cut is
// not taken for a whole one.
func TestEnds(t *testing.T) {
	t.Parallel()
	call := `{"tool_calls":[{"index":0,"id":"a","function":{"name":"ls","arguments":"{}"}}]}`
	for finish, test := range map[string]struct{ text, call tree.StopReason }{
		"stop":                          {tree.StopEndTurn, tree.StopToolUse},
		"STOP":                          {tree.StopEndTurn, tree.StopToolUse},
		"tool_calls":                    {tree.StopEndTurn, tree.StopToolUse},
		"function_call":                 {tree.StopEndTurn, tree.StopToolUse},
		"eos":                           {tree.StopEndTurn, tree.StopToolUse},
		"eos_token":                     {tree.StopEndTurn, tree.StopToolUse},
		"stop_sequence":                 {tree.StopEndTurn, tree.StopToolUse},
		"length":                        {tree.StopMaxTokens, tree.StopMaxTokens},
		"model_length":                  {tree.StopMaxTokens, tree.StopMaxTokens},
		"model_context_window_exceeded": {tree.StopMaxTokens, tree.StopMaxTokens},
		"content_filter":                {tree.StopRefusal, tree.StopRefusal},
		"sensitive":                     {tree.StopRefusal, tree.StopRefusal},
		"repetition":                    {tree.StopUnspecified, tree.StopUnspecified},
	} {
		t.Run(finish, func(t *testing.T) {
			t.Parallel()
			said, err := ask(t, chunks(finish, `{"content":"x"}`))
			if err != nil || said.Stop != test.text || !reflect.DeepEqual(said.Blocks, []tree.Block{tree.Text{Text: "x"}}) {
				t.Errorf("a text is %+v, %v", said, err)
			}
			input := `{}`
			if test.call != tree.StopToolUse {
				input = `{` // which no tool takes
			}
			want := []tree.Block{tree.ToolUse{ProviderID: "a", Name: "ls", Input: []byte(input)}}
			if test.call == tree.StopRefusal {
				want = nil
			}
			called, err := ask(t, chunks(finish, call))
			if err != nil || called.Stop != test.call || !reflect.DeepEqual(called.Blocks, want) {
				t.Errorf("a call is %+v, %v", called, err)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	event := func(text string) server { return server{status: http.StatusOK, body: "data: " + text + "\n\n"} }
	for name, test := range map[string]struct {
		stream server
		want   model.ErrorKind
	}{
		"an event with a number":            {event(`{"error":{"message":"no","type":"BadRequestError","code":400}}`), model.ErrorInvalid},
		"an event with a name":              {event(`{"error":{"message":"no","code":"rate_limit_exceeded"}}`), model.ErrorRateLimited},
		"an event of too large a request":   {event(`{"error":{"message":"Request too large for gpt-x","type":"tokens","code":"rate_limit_exceeded"}}`), model.ErrorTooLong},
		"an event with a type":              {event(`{"error":{"message":"no","type":"server_error","code":null}}`), model.ErrorOverloaded},
		"an event with a number in quotes":  {event(`{"error":{"message":"no","code":"400"}}`), model.ErrorInvalid},
		"an event with a limit in quotes":   {event(`{"error":{"message":"no","code":"429"}}`), model.ErrorRateLimited},
		"an event with a status":            {event(`{"error":{"message":"no","code":null,"status":503}}`), model.ErrorOverloaded},
		"an event with a status in words":   {event(`{"error":{"message":"no","code":400,"status":"INVALID_ARGUMENT"}}`), model.ErrorInvalid},
		"an event with a number of its own": {event(`{"error":{"message":"no","code":"1302"}}`), model.ErrorBroken},
		"an event of a wrong request":       {event(`{"error":{"message":"no","type":"invalid_request_error","code":"invalid_value"}}`), model.ErrorInvalid},
		"an event of a long conversation":   {event(`{"error":{"message":"no","type":"invalid_request_error","code":"context_length_exceeded"}}`), model.ErrorTooLong},
		"an event of a wrong key":           {event(`{"error":{"message":"no","type":"invalid_request_error","code":"invalid_api_key"}}`), model.ErrorAuth},
		"an event of a missing right":       {event(`{"error":{"message":"no","type":"authentication_error"}}`), model.ErrorAuth},
		"an event with type and number":     {event(`{"error":{"message":"no","type":"invalid_request_error","code":408}}`), model.ErrorBroken},
		"an event of a used-up account":     {event(`{"error":{"message":"no","type":"insufficient_quota","code":429}}`), model.ErrorAuth},
		"an event with a text":              {event(`{"error":"no"}`), model.ErrorBroken},
		"an event that is no JSON":          {event(`{"choices":[`), model.ErrorBroken},
		"the end without a finish reason":   {server{status: http.StatusOK, body: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n"}, model.ErrorBroken},
		"the end in an event":               {server{status: http.StatusOK, body: strings.TrimSuffix(chunks("stop", `{"content":"x"}`).body, "E]\n\n")}, model.ErrorBroken},
		"a finish that says error":          {chunks("error", `{"content":"x"}`), model.ErrorBroken},
		"a finish for want of a server":     {chunks("insufficient_system_resource", `{"content":"x"}`), model.ErrorBroken},
		"a finish for want of a network":    {chunks("network_error", `{"content":"x"}`), model.ErrorBroken},
		"a finish that was an abort":        {chunks("abort", `{"content":"x"}`), model.ErrorBroken},
		"a page":                            {server{status: http.StatusOK, body: "<html>\n\n</html>\n"}, model.ErrorBroken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := ask(t, test.stream)
			var failed *model.Error
			if answer != nil || !errors.As(err, &failed) || failed.Kind != test.want {
				t.Errorf("answered %+v, %v", answer, err)
			}
		})
	}
}

// TestRefusals: the status counts, and what was said is kept, whatever its form.
func TestRefusals(t *testing.T) {
	t.Parallel()
	said := func(status int, body string) server { return server{status: status, body: body} }
	for name, test := range map[string]struct {
		answer server
		want   model.ErrorKind
		text   string
	}{
		"OpenAI's":         {said(401, `{"error":{"message":"wrong key","type":"invalid_request_error","code":"invalid_api_key"}}`), model.ErrorAuth, "wrong key"},
		"used up":          {said(429, `{"error":{"code":"insufficient_quota","message":"pay"}}`), model.ErrorAuth, "pay"},
		"a plan without":   {said(429, `{"error":{"code":"usage_not_included","message":"pay"}}`), model.ErrorAuth, "pay"},
		"used up, by type": {said(429, `{"error":{"type":"insufficient_quota","message":"pay"}}`), model.ErrorAuth, "pay"},
		"not active":       {said(429, `{"error":{"message":"Your account is not active, please check your billing details on our website.","type":"billing_not_active","param":null,"code":"billing_not_active"}}`), model.ErrorAuth, "not active"},
		"Moonshot's":       {said(429, `{"error":{"message":"Your account is suspended, please check your plan and billing details","type":"exceeded_current_quota_error"}}`), model.ErrorAuth, "suspended"},
		"more than a minute allows": {
			said(429, `{"error":{"message":"Request too large for gpt-x on tokens per min (TPM): Limit 30000, Requested 48000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`),
			model.ErrorTooLong, "Limit 30000",
		},
		"what a minute allows is used": {
			said(429, `{"error":{"message":"Rate limit reached for gpt-x on tokens per min (TPM): Limit 30000, Used 29937, Requested 385.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`),
			model.ErrorRateLimited, "Used 29937",
		},
		"a text as the error": {said(400, `{"error":"no such model"}`), model.ErrorInvalid, "no such model"},
		"a wrong key so":      {said(401, `{"error":"wrong key"}`), model.ErrorAuth, "wrong key"},
		"a limit so":          {said(429, `{"error":"too fast"}`), model.ErrorRateLimited, "too fast"},
		"an odd error":        {said(400, `{"error":{"message":["no"],"code":{}}}`), model.ErrorInvalid, `["no"]`},
		"a detail":            {said(422, `{"detail":[{"msg":"field required"}]}`), model.ErrorInvalid, "field required"},
		"a message":           {said(400, `{"object":"error","message":"too long","code":400}`), model.ErrorInvalid, "too long"},
		"a list":              {said(400, `[{"error":{"code":400,"message":"too long"}}]`), model.ErrorInvalid, "too long"},
		"plain text":          {said(404, "404 page not found\n"), model.ErrorInvalid, "404 Not Found: 404 page not found (asked at http://h/v1/chat/completions: is the base URL right?)"},
		"a page":              {said(502, "<html>bad gateway</html>"), model.ErrorOverloaded, "<html>bad gateway"},
		"nothing":             {said(503, ""), model.ErrorOverloaded, "503 Service Unavailable"},
		"a cut body":          {server{401, `{"error":`, io.ErrUnexpectedEOF}, model.ErrorAuth, ": unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := ask(t, test.answer)
			var failed *model.Error
			if answer != nil || !errors.As(err, &failed) || failed.Kind != test.want || failed.RetryAfter != 7*time.Second ||
				!strings.Contains(err.Error(), test.text) {
				t.Errorf("answered %+v, %v", answer, err)
			}
		})
	}
}

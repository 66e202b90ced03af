package openai

import (
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// server answers every request with the same.
type server struct {
	status int
	body   string
}

func (s server) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: s.status, Body: io.NopCloser(strings.NewReader(s.body)),
		Header: http.Header{"Content-Type": {"text/event-stream"}},
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
	return server{http.StatusOK, body + "data: [DONE]\n\n"}
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
		"reasoning under either name": {
			chunks("stop", `{"reasoning_content":"h"}`, `{"reasoning":"m"}`, `{"content":"ok"}`),
			[]tree.Block{tree.Thinking{Text: "hm"}, tree.Text{Text: "ok"}}, tree.StopEndTurn,
		},
		"a refusal": {
			chunks("stop", `{"refusal":"I'd rather not","tool_calls":[{"index":0,"id":"a","function":{"name":"rm","arguments":"{}"}}]}`),
			[]tree.Block{tree.Text{Text: "I'd rather not"}}, tree.StopRefusal,
		},
		"nothing": {chunks("stop", `{}`), nil, tree.StopEndTurn},
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

func TestErrors(t *testing.T) {
	t.Parallel()
	event := func(text string) server { return server{http.StatusOK, "data: " + text + "\n\n"} }
	for name, test := range map[string]struct {
		stream server
		want   model.ErrorKind
	}{
		"used up":                         {server{http.StatusTooManyRequests, `{"error":{"code":"insufficient_quota","message":"pay"}}`}, model.ErrorAuth},
		"not JSON":                        {server{http.StatusBadGateway, `<html>`}, model.ErrorOverloaded},
		"an event with a number":          {event(`{"error":{"message":"no","type":"BadRequestError","code":400}}`), model.ErrorInvalid},
		"an event with a name":            {event(`{"error":{"message":"no","code":"rate_limit_exceeded"}}`), model.ErrorRateLimited},
		"an event with a type":            {event(`{"error":{"message":"no","type":"server_error","code":null}}`), model.ErrorOverloaded},
		"an event with a text":            {event(`{"error":"no"}`), model.ErrorBroken},
		"an event that is no JSON":        {event(`{"choices":[`), model.ErrorBroken},
		"the end without a finish reason": {server{http.StatusOK, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n"}, model.ErrorBroken},
		"a page":                          {server{http.StatusOK, "<html>\n\n</html>\n"}, model.ErrorBroken},
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

package fakellm_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/anthropic"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/openai"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/tree"
)

// apis are the adapters; base is where a fake serves.
var apis = map[string]func(t *testing.T, base string, client *http.Client) model.Model{
	"anthropic": func(t *testing.T, base string, client *http.Client) model.Model {
		m, err := anthropic.New(anthropic.Config{Key: "k", BaseURL: base, Model: "claude-fake", HTTP: client})
		if err != nil {
			t.Fatal(err)
		}
		return m
	},
	"openai": func(t *testing.T, base string, client *http.Client) model.Model {
		m, err := openai.New(openai.Config{Key: "k", BaseURL: base + "/v1", Model: "gpt-fake", HTTP: client})
		if err != nil {
			t.Fatal(err)
		}
		return m
	},
	"responses": func(t *testing.T, base string, client *http.Client) model.Model {
		m, err := openai.New(openai.Config{Key: "k", BaseURL: base + "/v1", Model: "gpt-fake", HTTP: client, Responses: true})
		if err != nil {
			t.Fatal(err)
		}
		return m
	},
}

// each runs a test with each adapter.
func each(t *testing.T, test func(t *testing.T, api string)) {
	t.Helper()
	for api := range apis {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			test(t, api)
		})
	}
}

// serve serves a fake, and gives an adapter that asks it.
func serve(t *testing.T, api string, c fakellm.Config) (model.Model, *fakellm.Server) {
	t.Helper()
	fake := fakellm.New(c)
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	client := upstream.NewClient(upstream.DefaultTimeouts())
	t.Cleanup(client.CloseIdleConnections)
	return apis[api](t, server.URL, client), fake
}

// says answers with what a function makes of a request, streamed first.
type says func(req *model.Request) (*model.Answer, error)

func (f says) Generate(_ context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	a, err := f(req)
	if err != nil {
		return nil, err
	}
	for _, b := range a.Blocks {
		switch b := b.(type) {
		case tree.Thinking:
			emit(model.Delta{Text: b.Text, Thinking: true})
		case tree.Text:
			for _, r := range b.Text {
				emit(model.Delta{Text: string(r)})
			}
		}
	}
	return a, nil
}

func always(a *model.Answer) says {
	return func(*model.Request) (*model.Answer, error) { return a, nil }
}

// rich is an answer with a block of each kind.
func rich() *model.Answer {
	return &model.Answer{
		Blocks: []tree.Block{
			tree.Thinking{Text: "Hm, „both“."},
			tree.Text{Text: "Läs ✓"},
			tree.ToolUse{ProviderID: "call_1", Name: "ls", Input: json.RawMessage(`{"path":"ä/\"b\""}`)},
			tree.ToolUse{ProviderID: "call_2", Name: "glob", Input: json.RawMessage(`{}`)},
		},
		Usage: tree.Usage{Input: 70, Output: 12, CacheRead: 900, CacheWrite: 30}, Stop: tree.StopToolUse,
	}
}

func ask() *model.Request {
	return &model.Request{
		System: "Be brief.", Agent: "explore", Depth: 2,
		Tools: []model.ToolSpec{
			{Name: "ls", Description: "lists", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"additionalProperties":false}`)},
			{Name: "glob", Description: "finds", Schema: json.RawMessage(`{"type":"object"}`)},
		},
		Messages: []tree.Message{{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "Look."}}}},
	}
}

// replay answers every request with a recording, or the first bytes of it.
type replay struct {
	header http.Header
	body   []byte
	err    error // after the body; nil ends it as if it were whole
}

func (r replay) RoundTrip(*http.Request) (*http.Response, error) {
	body := io.Reader(bytes.NewReader(r.body))
	if r.err != nil {
		body = io.MultiReader(body, broken{r.err})
	}
	return &http.Response{StatusCode: http.StatusOK, Header: r.header, Body: io.NopCloser(body)}, nil
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// recorder keeps what a server answered.
type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err == nil {
		r.header = resp.Header
		resp.Body = io.NopCloser(io.TeeReader(resp.Body, &r.body))
	}
	return resp, err
}

// record gives what an API says when the model answers so.
func record(t *testing.T, api string, a *model.Answer) replay {
	t.Helper()
	server := httptest.NewServer(fakellm.New(fakellm.Config{Model: always(a)}))
	defer server.Close()
	tape := &recorder{}
	if _, err := apis[api](t, server.URL, &http.Client{Transport: tape}).Generate(t.Context(), ask(), nil); err != nil {
		t.Fatal(err)
	}
	return replay{header: tape.header, body: tape.body.Bytes()}
}

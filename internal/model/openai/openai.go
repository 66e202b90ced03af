// Package openai calls models over OpenAI's two APIs: Responses, which can send the reasoning
// of a model back to it, and chat completions, which many servers support, such as vLLM,
// Ollama, llama.cpp and gateways.
//
// An answer counts only when its stream is complete: with response.completed or
// response.incomplete or, for chat completions, with a finish reason that is not a failure,
// followed by [DONE]. Any other end is an error. This package retries only requests that were
// refused because of a quirk of the model, or because of a part of the conversation.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// Config configures a [Model].
type Config struct {
	Key     string
	BaseURL string       // includes the version, as in http://127.0.0.1:11434/v1; empty: OpenAI's own server
	Model   string       // default model; required
	HTTP    *http.Client // required; see [upstream.NewClient]
	// Responses selects the Responses API. If OpenAI's own server refuses a model over it, chat
	// completions are used.
	Responses bool
	// Effort is the reasoning effort, in the provider's words; empty means the model's default.
	// It is not sent to models that reject it.
	Effort string
	Logger *slog.Logger // optional

	quirks   quirks   // of the requested model
	omission omission // of the conversation
}

// omission is what requests of a conversation leave out because a model has refused it.
type omission struct {
	attachments bool
	thinking    conversation.RejectedThinking
	chatOnly    bool // refused over Responses, so chat completions are used
}

// ownURL is OpenAI's own server.
const ownURL = "https://api.openai.com/v1"

// Model calls the API. It implements [model.Model].
type Model struct {
	config    Config
	client    sdk.Client
	quirks    quirkCache
	omissions upstream.ConversationCache[omission]
}

var _ model.Model = (*Model)(nil)

// New checks the configuration. It sends nothing. The SDK also uses OPENAI_ORG_ID,
// OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS from the environment.
func New(c Config) (*Model, error) {
	switch {
	case c.Model == "":
		return nil, errors.New("openai: the name of a model is required")
	case c.HTTP == nil:
		return nil, errors.New("openai: an HTTP client is required")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	base := c.BaseURL
	if base == "" {
		base = ownURL
	}
	options := []option.RequestOption{
		option.WithBaseURL(base), option.WithHTTPClient(c.HTTP), option.WithMaxRetries(0), option.WithAPIKey(c.Key),
		option.WithMiddleware(upstream.RequireStream(kindOfBody)), //nolint:bodyclose // the SDK closes the body
	}
	if c.Key == "" {
		options = append(options, option.WithHeaderDel("Authorization"))
	}
	return &Model{config: c, client: sdk.NewClient(options...)}, nil
}

// Generate makes the request, and again for each requirement that a refusal reveals. If the
// error text does not help, it tries without attachments, and then over chat completions. What
// made the request succeed is remembered. If everything is refused, Generate returns the first
// refusal, unless the conversation turned out to be too long.
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	preview := upstream.NewPreview(emit)
	name, config := cmp.Or(req.Model, m.config.Model), m.config
	config.quirks, config.omission = m.quirks.get(name), m.omissions.Get(name, req)
	began := config
	var first error
	for {
		answer, err := m.ask(ctx, config, req, preview.Show)
		next := config.next(err, req)
		switch {
		case err == nil && config != began:
			m.learn(ctx, name, req, config, first)
		case next != config:
			preview.Retract()
			first, config = cmp.Or(first, err), next
			continue
		case first != nil && upstream.IsInvalid(err) && !isTooLong(err):
			return nil, first
		}
		return answer, err
	}
}

// ask makes one request.
func (m *Model) ask(ctx context.Context, config Config, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	// An abandoned stream must not continue in the background.
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	if config.usesResponses() {
		return m.respond(streaming, config, req, emit)
	}
	return m.complete(streaming, config, req, emit)
}

// post sends a request and returns the event stream of the response.
func (m *Model) post(ctx context.Context, path string, params any, req *model.Request) (ssestream.Decoder, error) {
	var resp *http.Response
	options := append(m.callerOptions(req), option.WithJSONSet("stream", true))
	if err := m.client.Post(ctx, path, params, &resp, options...); err != nil {
		err = requestError(ctx, resp, err)
		if m.config.BaseURL != "" {
			err = upstream.NameAddress(err, resp)
		}
		return nil, err
	}
	resp.Body = terminated{io.MultiReader(resp.Body, strings.NewReader("\n\n")), resp.Body}
	return events{ssestream.NewDecoder(resp)}, nil
}

// terminated is a body with a blank line behind its end. Some servers leave out the last one, and
// the SDK drops an event without.
type terminated struct {
	io.Reader
	io.Closer
}

// complete calls the chat completions API.
func (m *Model) complete(ctx context.Context, config Config, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	params, err := config.params(req)
	if err != nil {
		return nil, &model.Error{Kind: model.ErrorInvalid, Err: err}
	}
	said, err := m.post(ctx, "chat/completions", params, req)
	if err != nil {
		return nil, err
	}
	events := &doneWatcher{Decoder: said}
	stream := ssestream.NewStream[sdk.ChatCompletionChunk](events, nil)
	defer stream.Close() //nolint:errcheck // everything that counts has been read
	var a answerBuilder
	for stream.Next() {
		chunk := stream.Current()
		a.handle(&chunk, emit)
	}
	switch err := stream.Err(); {
	case err != nil:
		return nil, streamError(ctx, err)
	case !events.done || a.finish == "":
		return nil, upstream.TransportError(ctx, io.ErrUnexpectedEOF)
	case a.failed():
		return nil, upstream.TransportError(ctx, fmt.Errorf("the provider ended the answer with the reason %q", a.finish))
	}
	return a.finished(), nil
}

// callerOptions returns the headers that identify the caller, for servers other than OpenAI's.
func (m *Model) callerOptions(req *model.Request) []option.RequestOption {
	var options []option.RequestOption
	if m.config.BaseURL != "" {
		for name, values := range upstream.CallerHeaders(req) {
			options = append(options, option.WithHeader(name, values[0]))
		}
	}
	return options
}

// events are the events of a stream, without an error that is null. Some servers put one into every
// event, and the SDK takes it for a failure.
type events struct{ ssestream.Decoder }

func (e events) Event() ssestream.Event {
	event := e.Decoder.Event()
	var fields map[string]json.RawMessage
	if !bytes.Contains(event.Data, []byte(`"error"`)) || json.Unmarshal(event.Data, &fields) != nil || string(fields["error"]) != "null" {
		return event
	}
	delete(fields, "error")
	if data, err := json.Marshal(fields); err == nil {
		event.Data = data
	}
	return event
}

// doneWatcher records whether a stream has ended with [DONE], which the SDK does not report.
type doneWatcher struct {
	ssestream.Decoder
	done bool
}

func (w *doneWatcher) Next() bool {
	more := w.Decoder.Next()
	if more && strings.TrimSpace(string(w.Event().Data)) == "[DONE]" {
		w.done = true
	}
	return more
}

// requestError returns the error for a failed request. It reads the body itself, because the
// SDK drops it, or fails, if it is not in OpenAI's format.
func requestError(ctx context.Context, resp *http.Response, err error) error {
	if resp == nil || resp.StatusCode < http.StatusBadRequest || ctx.Err() != nil {
		return upstream.TransportError(ctx, err)
	}
	body, unread := io.ReadAll(resp.Body) // the SDK has read it, and put it back
	if unread != nil {
		body = []byte(err.Error())
	}
	e := upstream.StatusError(resp.StatusCode, resp.Header, strings.TrimSpace(string(body)))
	switch t := parseError(body); {
	case t.mentions(unpaidCodes...):
		e.Kind = model.ErrorAuth
	case t.tooLarge && e.Kind == model.ErrorRateLimited:
		e.Kind = model.ErrorTooLong
	}
	return e
}

// streamError returns the error for a stream that broke.
func streamError(ctx context.Context, err error) error {
	var said *ssestream.StreamError
	if !errors.As(err, &said) || ctx.Err() != nil {
		return upstream.TransportError(ctx, err)
	}
	return &model.Error{
		Kind: upstream.RefineKind(parseError(said.Event.Data).kind(), string(said.Event.Data)),
		Err:  errors.New("the provider broke the answer off: " + said.Message),
	}
}

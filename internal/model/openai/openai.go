// Package openai asks models over OpenAI's two APIs: Responses, which hands the
// reasoning of a model back to it, and chat completions, which many servers speak: vLLM,
// Ollama, llama.cpp, gateways.
//
// An answer counts only when its stream has said that it is whole: with
// response.completed or response.incomplete, or with a finish reason that is no failure
// and then [DONE]. Whatever ends before is an error. Nothing is tried again here but a
// request that was refused for want of what only some models want, or for what it shows
// of the conversation.
package openai

import (
	"cmp"
	"context"
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

// Config says whom to ask, and how.
type Config struct {
	Key     string
	BaseURL string       // with its version, as in http://127.0.0.1:11434/v1; empty: OpenAI's own
	Model   string       // for requests that name none; required
	HTTP    *http.Client // required; see [upstream.NewClient]
	// Responses has models asked over the API of this name. One of OpenAI's own server that
	// refuses is asked over chat completions instead.
	Responses bool
	// Effort is how much models reason, in the provider's words; empty: as they do by
	// themselves. One that refuses to be told is not.
	Effort string
	Logger *slog.Logger // nil: none

	quirks   quirks   // of the model that is asked
	omission omission // of the conversation
}

// omission is what a model has refused of a conversation, which it is asked without.
type omission struct {
	attachments bool
	thinking    conversation.RejectedThinking
	chatOnly    bool // it is refused over Responses, and goes over chat completions
}

// ownURL is OpenAI's own server.
const ownURL = "https://api.openai.com/v1"

// Model asks over the network. It implements [model.Model].
type Model struct {
	config    Config
	client    sdk.Client
	quirks    quirkCache
	omissions upstream.ConversationCache[omission]
}

var _ model.Model = (*Model)(nil)

// New checks the configuration. Nothing is sent yet. What else the SDK finds in the
// environment (OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_CUSTOM_HEADERS) is used.
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
		option.WithMiddleware(upstream.RequireStream(kindOfBody)), //nolint:bodyclose // the SDK closes what it is given
	}
	if c.Key == "" {
		options = append(options, option.WithHeaderDel("Authorization"))
	}
	return &Model{config: c, client: sdk.NewClient(options...)}, nil
}

// Generate asks once, and once more for each thing that a refusal says the model wants,
// which it gets from then on. At last a refused conversation goes without its attachments,
// and then does so from then on; and then over the older API. If that is refused too, the
// first refusal counts, unless the conversation has turned out to be too long.
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

// ask asks once.
func (m *Model) ask(ctx context.Context, config Config, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	// A stream that is given up must not go on in the background.
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	if config.usesResponses() {
		return m.respond(streaming, config, req, emit)
	}
	return m.complete(streaming, config, req, emit)
}

// post sends a request, and gives the events that answer it.
func (m *Model) post(ctx context.Context, path string, params any, req *model.Request) (ssestream.Decoder, error) {
	var resp *http.Response
	options := append(m.callerOptions(req), option.WithJSONSet("stream", true))
	if err := m.client.Post(ctx, path, params, &resp, options...); err != nil {
		return nil, requestError(ctx, resp, err)
	}
	return ssestream.NewDecoder(resp), nil
}

// complete asks over chat completions.
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
	defer stream.Close() //nolint:errcheck // all that counts has been read
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

// callerOptions says who asks, to servers other than OpenAI's.
func (m *Model) callerOptions(req *model.Request) []option.RequestOption {
	var options []option.RequestOption
	if m.config.BaseURL != "" {
		for name, values := range upstream.CallerHeaders(req) {
			options = append(options, option.WithHeader(name, values[0]))
		}
	}
	return options
}

// doneWatcher notes whether a stream has said that it is done, which the stream itself
// does not tell from an end without a word.
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

// requestError is what a request without an answer means. What the SDK makes of a body is
// left aside: of one that is not as OpenAI's are, it keeps nothing or fails.
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
	case t.mentions(codeQuota, codePlan):
		e.Kind = model.ErrorAuth
	case t.tooLarge && e.Kind == model.ErrorRateLimited:
		e.Kind = model.ErrorTooLong
	}
	return e
}

// streamError is what an error in the middle of a stream means.
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

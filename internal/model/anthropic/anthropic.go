// Package anthropic calls models over Anthropic's Messages API, at Anthropic or at a compatible
// server.
//
// An answer counts only when its stream has ended with message_stop; any other end is an error.
// This package retries only requests that were refused because of their reasoning blocks or
// their attachments.
package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/shared"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// Config configures a [Model].
type Config struct {
	Key      string
	BaseURL  string       // empty: Anthropic's own server
	Model    string       // default model; required
	Thinking Thinking     // zero: the model decides
	HTTP     *http.Client // required; see [upstream.NewClient]
}

// Thinking says whether and how much a model reasons before it answers.
type Thinking struct {
	Adaptive bool  // the model decides how much
	Tokens   int64 // if above 0: the budget, in addition to the tokens of the answer
}

// defaultMaxTokens bounds an answer. The API requires a bound.
const defaultMaxTokens = 32_000

// Model calls the API. It implements [model.Model].
type Model struct {
	config        Config
	messages      sdk.MessageService
	dropsThinking sync.Map // names of models that have refused reasoning and drop it on request
	omissions     upstream.ConversationCache[omission]
}

var _ model.Model = (*Model)(nil)

// New checks the configuration. It sends nothing, and reads nothing from the environment.
func New(c Config) (*Model, error) {
	switch {
	case c.Model == "":
		return nil, errors.New("anthropic: the name of a model is required")
	case c.HTTP == nil:
		return nil, errors.New("anthropic: an HTTP client is required")
	}
	options := []option.RequestOption{
		option.WithEnvironmentProduction(), option.WithHTTPClient(c.HTTP),
		option.WithMaxRetries(0), option.WithoutOpenTelemetry(),
		option.WithMiddleware(upstream.RequireStream(kindOfBody)), //nolint:bodyclose // the SDK closes the body
	}
	if c.BaseURL != "" {
		options = append(options, option.WithBaseURL(c.BaseURL))
	}
	if c.Key != "" {
		options = append(options, option.WithAPIKey(c.Key))
	}
	return &Model{config: c, messages: sdk.NewMessageService(options...)}, nil
}

// Generate makes the request. After a refusal it tries again without what the provider seems to
// have refused; see [attempt].
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	preview := upstream.NewPreview(emit)
	name := cmp.Or(req.Model, m.config.Model)
	_, drop := m.dropsThinking.Load(name)
	known := m.omissions.Get(name, req)
	known.attachments = known.attachments || m.config.hidesAttachments(name)
	try := attempt{dropThinking: drop, omission: known}
	for {
		answer, err := m.ask(ctx, try.request(req), try.dropThinking, preview.Show)
		if next := try.next(err, req); next != try {
			preview.Retract()
			try = next
			continue
		}
		if err == nil && try.dropThinking {
			m.dropsThinking.Store(name, true)
		}
		if err == nil && try.omission != known {
			m.omissions.Put(name, req, try.omission)
		}
		return answer, err
	}
}

// ask makes one request. With drop, the provider drops reasoning that it would refuse.
func (m *Model) ask(ctx context.Context, req *model.Request, drop bool, emit func(model.Delta)) (*model.Answer, error) {
	params, options := m.config.params(req), m.callerOptions(req)
	if drop {
		options = append(options, dropOptions(&params)...)
	}
	// An abandoned stream must not continue in the background.
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := m.messages.NewStreaming(streaming, params, options...)
	defer stream.Close() //nolint:errcheck // the stream was read to its end, or abandoned
	var a answerBuilder
	for stream.Next() {
		event := stream.Current()
		if event.Type == "message_stop" {
			return a.finish(ctx)
		}
		if err := a.handle(&event, emit); err != nil {
			return nil, upstream.TransportError(ctx, err)
		}
	}
	err := streamError(ctx, stream.Err())
	if refused, is := errors.AsType[*sdk.Error](stream.Err()); is && m.config.BaseURL != "" {
		err = upstream.NameAddress(err, refused.Response)
	}
	return nil, err
}

// callerOptions returns the headers that identify the caller, for servers other than
// Anthropic's.
func (m *Model) callerOptions(req *model.Request) []option.RequestOption {
	var options []option.RequestOption
	if m.config.BaseURL != "" {
		for name, values := range upstream.CallerHeaders(req) {
			options = append(options, option.WithHeader(name, values[0]))
		}
	}
	return options
}

// streamError returns the error for a stream that ended early.
func streamError(ctx context.Context, err error) error {
	var refused *sdk.Error
	switch {
	case err == nil:
		return upstream.TransportError(ctx, io.ErrUnexpectedEOF)
	case !errors.As(err, &refused) || ctx.Err() != nil:
		return upstream.TransportError(ctx, err)
	}
	e := upstream.StatusError(refused.StatusCode, refused.Response.Header, refused.RawJSON())
	if refused.StatusCode == http.StatusOK {
		// An event of the stream: its type replaces the status.
		e.Kind = upstream.RefineKind(kindOf(refused.Type()), refused.RawJSON())
		e.Err = errors.New("the provider broke the answer off: " + refused.RawJSON())
	}
	return e
}

// kindOfBody classifies an error that is the whole response.
func kindOfBody(said []byte) model.ErrorKind {
	var body struct {
		Error struct {
			Type sdk.ErrorType `json:"type"`
		} `json:"error"`
	}
	if json.Unmarshal(said, &body) != nil {
		return model.ErrorBroken
	}
	return kindOf(body.Error.Type)
}

func kindOf(t sdk.ErrorType) model.ErrorKind {
	switch t {
	case shared.ErrorTypeRateLimitError:
		return model.ErrorRateLimited
	case shared.ErrorTypeOverloadedError, shared.ErrorTypeAPIError, shared.ErrorTypeTimeoutError:
		return model.ErrorOverloaded
	case shared.ErrorTypeAuthenticationError, shared.ErrorTypePermissionError, shared.ErrorTypeBillingError:
		return model.ErrorAuth
	case shared.ErrorTypeInvalidRequestError, shared.ErrorTypeNotFoundError:
		return model.ErrorInvalid
	}
	return model.ErrorBroken
}

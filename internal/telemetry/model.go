package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// tracedModel is a model whose calls are traced and counted.
type tracedModel struct {
	model.Model
	*Telemetry
	route  func(*model.Request) target
	took   metric.Float64Histogram
	first  metric.Float64Histogram
	tokens metric.Int64Histogram
	labels *labelCache[callKey]
}

// target is where a request goes: its provider, or [other], and the name of the model there.
type target struct{ provider, model string }

// routeOf returns how to find the targets of a model's requests. A model that is no
// [model.Router] uses the names of the request.
func routeOf(m model.Model) func(*model.Request) target {
	router, ok := m.(model.Router)
	if !ok {
		return func(req *model.Request) target { return target{providerName(req.Provider), req.Model} }
	}
	return func(req *model.Request) target {
		provider, name := router.Route(req)
		return target{providerName(provider), name}
	}
}

// callKey is what calls are counted by. It contains only names under which a provider has
// answered, so there are few.
type callKey struct {
	provider, model string
	token           string // type of the counted tokens; empty: calls are counted
}

func (a callKey) attributes() []attribute.KeyValue {
	attrs := []attribute.KeyValue{keyOperation.String(opChat), keyProvider.String(a.provider), keyModel.String(a.model)}
	if a.token != "" {
		attrs = append(attrs, keyTokenType.String(a.token))
	}
	return attrs
}

// TraceModel wraps a model so that each call is a span below the span of its run, and is
// counted.
func (t *Telemetry) TraceModel(m model.Model) (model.Model, error) {
	took, err := genaiconv.NewClientOperationDuration(t.Meter, seconds())
	first, errFirst := genaiconv.NewClientOperationTimeToFirstChunk(t.Meter, seconds())
	tokens, errTokens := genaiconv.NewClientTokenUsage(t.Meter,
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576))
	return &tracedModel{m, t, routeOf(m), took.Inst(), first.Inst(), tokens.Inst(), newLabelCache(callKey.attributes)}, errors.Join(err, errFirst, errTokens)
}

// Generate calls the model.
func (m *tracedModel) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	began, to := time.Now(), m.route(req)
	ctx, span := m.Tracer.Start(ctx, spanName(opChat, to.model), trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(keyOperation.String(opChat), keyProvider.String(to.provider),
			keyModelAsked.String(to.model), keyConversation.String(req.Session.String()), keySession.String(req.Session.String()),
			keyTask.String(req.Task.String()), keyAgent.String(req.Agent))
	}
	var firstChunk time.Duration
	answer, err := m.Model.Generate(ctx, req, func(d model.Delta) {
		if firstChunk == 0 && !d.Restart { // a restart is not output of the model
			firstChunk = time.Since(began)
		}
		if emit != nil {
			emit(d)
		}
	})
	m.count(ctx, to.provider, answer, err, time.Since(began), firstChunk)
	if span.IsRecording() {
		m.describe(span, req, answer, err, firstChunk)
	}
	return answer, err
}

// count records the duration of a call and, if it has an answer, when the first piece came and the tokens.
func (m *tracedModel) count(ctx context.Context, provider string, answer *model.Answer, err error, took, firstChunk time.Duration) {
	of := callKey{provider: provider}
	var record []metric.RecordOption
	if err == nil {
		of.model = m.names.learn(answer.Model) // a real name, unlike the requested one
		record = m.labels.get(of).record
	} else {
		record = newLabelSet(keyOperation.String(opChat), keyProvider.String(of.provider), keyErrorType.String(errorType(err))).record
	}
	m.took.Record(ctx, took.Seconds(), record...)
	if err != nil {
		return
	}
	if firstChunk > 0 {
		m.first.Record(ctx, firstChunk.Seconds(), record...)
	}
	of.token = "input"
	m.tokens.Record(ctx, inputTokens(answer.Usage), m.labels.get(of).record...)
	of.token = "output"
	m.tokens.Record(ctx, answer.Usage.Output, m.labels.get(of).record...)
}

// inputTokens returns all input tokens, cached or not.
func inputTokens(u tree.Usage) int64 { return u.Input + u.CacheRead + u.CacheWrite }

// describe adds the result of a call to its span: usage and stop reason, or the error.
func (m *tracedModel) describe(span trace.Span, req *model.Request, a *model.Answer, err error, firstChunk time.Duration) {
	if firstChunk > 0 {
		span.SetAttributes(keyFirstChunk.Float64(firstChunk.Seconds()))
	}
	if err != nil {
		span.SetAttributes(keyErrorType.String(errorType(err)))
		span.SetStatus(codes.Error, m.clean(err.Error()))
		return
	}
	u := a.Usage
	span.SetAttributes(keyModel.String(a.Model), keyFinish.StringSlice([]string{finish(a.Stop)}),
		keyInput.Int64(inputTokens(u)), keyOutput.Int64(u.Output), keyCacheRead.Int64(u.CacheRead), keyCacheWrite.Int64(u.CacheWrite))
	m.addContent(span, req, a)
}

// maxContentBytes bounds the content of a conversation in a span.
const maxContentBytes = 32 << 10

// addContent adds the last message and the answer to the span, if the operator enabled that.
func (m *tracedModel) addContent(span trace.Span, req *model.Request, a *model.Answer) {
	if !m.captureContent {
		return
	}
	last := req.Messages[len(req.Messages)-1:]
	for key, what := range map[attribute.Key]any{keyMessagesIn: contentMessages(last), keyMessagesOut: contentMessages([]tree.Message{{Role: tree.RoleAssistant, Blocks: a.Blocks}})} {
		if text, err := json.Marshal(what); err == nil && len(text) <= maxContentBytes {
			span.SetAttributes(key.String(m.clean(string(text))))
		}
	}
}

// contentMessage is a message in the format of the conventions.
type contentMessage struct {
	Role  string        `json:"role"`
	Parts []contentPart `json:"parts"`
}

type contentPart struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

func contentMessages(messages []tree.Message) []contentMessage {
	var out []contentMessage
	for _, m := range messages {
		one := contentMessage{Role: role(m.Role)}
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case tree.Text:
				one.Parts = append(one.Parts, contentPart{Type: "text", Content: b.Text})
			case tree.ToolUse:
				one.Parts = append(one.Parts, contentPart{Type: "tool_call", Name: b.Name, Arguments: b.Input})
			case tree.ToolResult:
				one.Parts = append(one.Parts, contentPart{Type: "tool_call_response", Response: b.Text})
			}
		}
		out = append(out, one)
	}
	return out
}

// finish returns the name of a stop reason in the conventions.
func finish(s tree.StopReason) string {
	switch s {
	case tree.StopEndTurn:
		return "stop"
	case tree.StopToolUse:
		return "tool_call"
	case tree.StopMaxTokens:
		return "length"
	}
	return "other"
}

// role returns the name of a role in the conventions.
func role(r tree.Role) string {
	switch r {
	case tree.RoleUser:
		return "user"
	case tree.RoleAssistant:
		return "assistant"
	case tree.RoleTool:
		return "tool"
	}
	return "other"
}

// providerName returns the name of a provider in the conventions.
func providerName(name string) string {
	if name == "" {
		return other
	}
	return name
}

func spanName(op, of string) string {
	if of == "" {
		return op
	}
	return op + " " + of
}

// errorType returns the class of an error. There are few classes.
func errorType(err error) string {
	var known *model.Error
	switch {
	case errors.As(err, &known):
		return known.Kind.String()
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	return other
}

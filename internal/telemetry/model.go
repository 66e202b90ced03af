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

// traceable is a model each of whose calls is a span, and is counted.
type traceable struct {
	model.Model
	*Telemetry
	took   metric.Float64Histogram
	first  metric.Float64Histogram
	tokens metric.Int64Histogram
}

// Model makes each call of a model a span below that of its run.
func (t *Telemetry) Model(m model.Model) (model.Model, error) {
	took, err := genaiconv.NewClientOperationDuration(t.Meter, seconds())
	first, errFirst := genaiconv.NewClientOperationTimeToFirstChunk(t.Meter, seconds())
	tokens, errTokens := genaiconv.NewClientTokenUsage(t.Meter,
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576))
	return &traceable{m, t, took.Inst(), first.Inst(), tokens.Inst()}, errors.Join(err, errFirst, errTokens)
}

// Generate asks the model.
func (m *traceable) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	attrs := []attribute.KeyValue{keyOperation.String(opChat), keyProvider.String(providerName(req.Provider))}
	began := time.Now()
	ctx, span := m.Tracer.Start(ctx, spanName(opChat, req.Model), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...),
		trace.WithAttributes(keyModelAsked.String(req.Model), keyConversation.String(req.Session.String()), keySession.String(req.Session.String()),
			keyTask.String(req.Task.String()), keyAgent.String(req.Agent)))
	defer span.End()
	var firstChunk time.Duration
	answer, err := m.Model.Generate(ctx, req, func(d model.Delta) {
		if firstChunk == 0 {
			firstChunk = time.Since(began)
		}
		if emit != nil {
			emit(d)
		}
	})
	took := time.Since(began)
	if err != nil {
		attrs = append(attrs, keyErrorType.String(errorType(err)))
		span.SetAttributes(attrs[len(attrs)-1])
		span.SetStatus(codes.Error, m.clean(err.Error()))
	}
	if answer != nil {
		attrs = append(attrs, keyModel.String(m.names.learn(answer.Model))) // a name that exists, unlike one that was asked for
	}
	labels := metric.WithAttributes(attrs...)
	m.took.Record(ctx, took.Seconds(), labels)
	if firstChunk > 0 {
		m.first.Record(ctx, firstChunk.Seconds(), labels)
		span.SetAttributes(keyFirstChunk.Float64(firstChunk.Seconds()))
	}
	if answer != nil {
		m.answered(ctx, span, attrs, answer)
		m.show(span, req, answer)
	}
	return answer, err
}

// answered notes what an answer has cost and how it ended.
func (m *traceable) answered(ctx context.Context, span trace.Span, attrs []attribute.KeyValue, a *model.Answer) {
	u := a.Usage
	span.SetAttributes(keyModel.String(a.Model), keyFinish.StringSlice([]string{finish(a.Stop)}),
		keyInput.Int64(u.Input+u.CacheRead+u.CacheWrite), keyOutput.Int64(u.Output),
		keyCacheRead.Int64(u.CacheRead), keyCacheWrite.Int64(u.CacheWrite))
	for kind, n := range map[string]int64{"input": u.Input + u.CacheRead + u.CacheWrite, "output": u.Output} {
		m.tokens.Record(ctx, n, metric.WithAttributes(append(attrs[:len(attrs):len(attrs)], keyTokenType.String(kind))...))
	}
}

// shownBytes bounds what a span shows of a conversation.
const shownBytes = 32 << 10

// show adds what was said, if the operator wants that.
func (m *traceable) show(span trace.Span, req *model.Request, a *model.Answer) {
	if !m.content || !span.IsRecording() {
		return
	}
	last := req.Messages[len(req.Messages)-1:]
	for key, what := range map[attribute.Key]any{keyMessagesIn: shown(last), keyMessagesOut: shown([]tree.Message{{Role: tree.RoleAssistant, Blocks: a.Blocks}})} {
		if text, err := json.Marshal(what); err == nil && len(text) <= shownBytes {
			span.SetAttributes(key.String(m.clean(string(text))))
		}
	}
}

// shownMessage is a message as the conventions have it.
type shownMessage struct {
	Role  string      `json:"role"`
	Parts []shownPart `json:"parts"`
}

type shownPart struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

func shown(messages []tree.Message) []shownMessage {
	var out []shownMessage
	for _, m := range messages {
		one := shownMessage{Role: role(m.Role)}
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case tree.Text:
				one.Parts = append(one.Parts, shownPart{Type: "text", Content: b.Text})
			case tree.ToolUse:
				one.Parts = append(one.Parts, shownPart{Type: "tool_call", Name: b.Name, Arguments: b.Input})
			case tree.ToolResult:
				one.Parts = append(one.Parts, shownPart{Type: "tool_call_response", Response: b.Text})
			}
		}
		out = append(out, one)
	}
	return out
}

// finish is how the conventions call a reason to stop.
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

// role is how the conventions call who speaks.
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

// providerName is what a provider is called in the conventions.
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

// errorType is a class of what went wrong, of which there are few.
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

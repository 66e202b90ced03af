package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/codes"

	"github.com/coppice-run/coppice/internal/tree"
)

// Tool starts a span for a tool call of a task that the worker executes. done ends the span; if it
// is not called, no span is written. call is the loop's own name of the call, because providers
// repeat their call ids.
func (t *Telemetry) Tool(ctx context.Context, session tree.SessionID, task tree.TaskID, call string, use tree.ToolUse) (_ context.Context, done func(text string, failed bool)) {
	ctx, span := t.Tracer.Start(ctx, spanName(opExecuteTool, use.Name))
	if span.IsRecording() {
		span.SetAttributes(keyOperation.String(opExecuteTool), keyTool.String(use.Name), keyToolType.String("function"),
			keyCallID.String(call), keyConversation.String(session.String()), keySession.String(session.String()),
			keyTask.String(task.String()))
	}
	if t.captureContent && len(use.Input) <= maxContentBytes {
		span.SetAttributes(keyArguments.String(t.clean(string(use.Input))))
	}
	return ctx, func(text string, failed bool) {
		if failed {
			span.SetStatus(codes.Error, "the call failed")
			span.SetAttributes(keyErrorType.String("tool_error"))
		}
		if t.captureContent && len(text) <= maxContentBytes {
			span.SetAttributes(keyResult.String(t.clean(text)))
		}
		span.End()
	}
}

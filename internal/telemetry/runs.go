package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tree"
)

// Runs writes the spans of runs and counts runs.
type Runs struct {
	*Telemetry
	pool    string
	started metric.Float64Histogram
	queued  metric.Float64Histogram
	parked  metric.Float64Histogram
	lasted  metric.Float64Histogram
	lost    metric.Int64Counter
	ended   metric.Int64Counter // attempts

	poolLabels    labelSet
	runLabels     *labelCache[runOutcome]
	attemptLabels *labelCache[attemptOutcome]
}

// attemptOutcome is what ended attempts are counted by.
type attemptOutcome struct {
	next tree.State // the next state of the run
	lost bool       // the worker was lost
}

// runOutcome is what ended runs are counted by.
type runOutcome struct {
	kind   tree.Kind
	state  tree.State
	reason tree.Reason
}

// Runs creates the metrics of the runs of a pool.
func (t *Telemetry) Runs(pool string) (*Runs, error) {
	of := labelPool.String(pool)
	r := &Runs{
		Telemetry: t, pool: pool, poolLabels: newLabelSet(of),
		runLabels: newLabelCache(func(l runOutcome) []attribute.KeyValue {
			return []attribute.KeyValue{of, labelKind.String(lowerName(l.kind)), labelState.String(lowerName(l.state)), labelReason.String(lowerName(l.reason))}
		}),
		attemptLabels: newLabelCache(func(e attemptOutcome) []attribute.KeyValue {
			return []attribute.KeyValue{of, labelOutcome.String(e.label())}
		}),
	}
	m := t.instruments()
	r.started = m.histogram("coppice.run.start_delay", "From the acceptance of a run until a worker has it for the first time.")
	r.queued = m.histogram("coppice.run.queue_wait", "How long a run that could go on waited for a worker.")
	r.parked = m.histogram("coppice.run.park_time", "How long a run waited, without a worker, for what it had asked for.")
	r.lasted = m.histogram("coppice.run.duration", "From the acceptance of a run to its end.")
	r.lost = m.counter("coppice.attempt.lost", "{attempt}", "Attempts that ended since their worker was lost or told to stop.")
	r.ended = m.counter("coppice.attempt.ended", "{attempt}", "Attempts that have ended, by what became of the run.")
	r.lost.Add(context.Background(), 0, r.poolLabels.add...)
	return r, m.err
}

// Passed writes the span of a completed phase of a run, and counts it.
func (r *Runs) Passed(session tree.SessionID, p tree.CompletedPhase) {
	r.count(p)
	if !r.traces || p.Trace.ID == (tree.TraceID{}) {
		return // no exporter, or the run was accepted by a release without traces
	}
	ctx := context.Background()
	switch p.Phase {
	case tree.PhaseQueued:
		r.write(r.withRunParent(ctx, p), spanQueued, p, r.attributes(session, p))
	case tree.PhaseParked:
		r.write(r.withRunParent(ctx, p), spanParked, p, r.attributes(session, p))
	case tree.PhaseAttempt:
		if p.Lost {
			r.write(r.withRunParent(ctx, p), spanAttempt, p, append(r.attributes(session, p), keyWorker.String(p.Worker)))
		}
	case tree.PhaseCall:
		r.call(ctx, session, p)
	case tree.PhaseRun:
		r.run(ctx, session, p)
	}
}

// withRunParent returns a context whose spans are children of the run's span.
func (r *Runs) withRunParent(ctx context.Context, p tree.CompletedPhase) context.Context {
	return r.withParentSpan(ctx, p.Trace, tree.RunSpan(p.Task, p.Run))
}

// run writes the span of a run that has ended.
func (r *Runs) run(ctx context.Context, session tree.SessionID, p tree.CompletedPhase) {
	t := p.Ended
	parent := p.Trace.Parent
	if hasCaller(t) {
		parent = tree.CallSpan(t.Caller, t.Call)
	}
	ctx = withIDs(r.withParentSpan(ctx, p.Trace, parent), p.Trace.ID, tree.RunSpan(p.Task, p.Run))
	attrs := append(r.attributes(session, p),
		keyState.String(lowerName(t.State)), keyIterations.Int(t.Iterations), keyTools.Int(t.RunTools),
		keyBackground.Bool(t.Background), keyDepth.Int(t.Depth), keyAbout.String(t.Description),
		keyInput.Int64(inputTokens(t.RunUsage)), keyOutput.Int64(t.RunUsage.Output),
		keyCacheRead.Int64(t.RunUsage.CacheRead), keyCacheWrite.Int64(t.RunUsage.CacheWrite))
	if !t.StartedAt.IsZero() {
		attrs = append(attrs, keyStarted.Float64(t.StartedAt.Sub(t.AcceptedAt).Seconds()))
	}
	if t.Kind == tree.KindAgent {
		attrs = append(attrs, keyOperation.String(opInvokeAgent), keyAgent.String(t.Agent), keyAgentVersion.String(t.AgentVersion))
	}
	if t.Reason != tree.ReasonUnspecified {
		attrs = append(attrs, keyReason.String(lowerName(t.Reason)), keyErrorType.String(lowerName(t.Reason)))
	}
	r.write(ctx, title(t), p, attrs, trace.WithSpanKind(trace.SpanKindInternal))
}

// title returns the span name of a run.
func title(t *tree.Task) string {
	if t.Kind == tree.KindShell {
		return "command"
	}
	return opInvokeAgent + " " + t.Agent
}

// call writes the span of the call that asked for a run.
func (r *Runs) call(ctx context.Context, session tree.SessionID, p tree.CompletedPhase) {
	t := p.Ended
	ctx = withIDs(r.withParentSpan(ctx, p.Trace, p.Trace.Parent), p.Trace.ID, tree.CallSpan(t.Caller, t.Call))
	tool := policy.TaskTool
	if t.Kind == tree.KindShell {
		tool = policy.BashTool
	}
	attrs := []attribute.KeyValue{
		keyOperation.String(opExecuteTool), keyTool.String(tool), keyToolType.String("function"),
		keyConversation.String(session.String()), keySession.String(session.String()), keyTask.String(t.Caller.String()),
		keyBackground.Bool(t.Background),
	}
	if t.State == tree.StateFailed {
		attrs = append(attrs, keyErrorType.String(lowerName(t.Reason)))
	}
	r.write(ctx, opExecuteTool+" "+tool, p, attrs)
}

// hasCaller reports whether a call asked for the run.
func hasCaller(t *tree.Task) bool { return !t.Caller.IsZero() && t.Call != (tree.CallRef{}) }

// write writes a span that has ended.
func (r *Runs) write(ctx context.Context, name string, p tree.CompletedPhase, attrs []attribute.KeyValue, options ...trace.SpanStartOption) {
	_, span := r.Tracer.Start(ctx, name, append(options, trace.WithTimestamp(p.From), trace.WithAttributes(attrs...))...)
	switch {
	case p.Lost:
		span.SetStatus(codes.Error, "the worker was lost")
	case (p.Phase == tree.PhaseRun || p.Phase == tree.PhaseCall) && p.Ended.State == tree.StateFailed:
		span.SetStatus(codes.Error, p.Ended.Detail)
	}
	span.End(trace.WithTimestamp(p.To))
}

// attributes returns the common attributes of the spans of a run.
func (r *Runs) attributes(session tree.SessionID, p tree.CompletedPhase) []attribute.KeyValue {
	return []attribute.KeyValue{
		keyConversation.String(session.String()), keySession.String(session.String()), keyTask.String(p.Task.String()),
		keyKind.String(lowerName(p.Kind)), keyRun.Int(p.Run), keyEpoch.Int64(p.Epoch), keyPool.String(r.pool),
	}
}

// count records a part of a run. Agent names belong to operators and tenants, so they are not
// labels.
func (r *Runs) count(p tree.CompletedPhase) {
	ctx := context.Background()
	took := p.To.Sub(p.From).Seconds()
	switch p.Phase {
	case tree.PhaseQueued:
		r.queued.Record(ctx, took, r.poolLabels.record...)
		if p.First && p.Next == tree.StateRunning {
			r.started.Record(ctx, took, r.poolLabels.record...)
		}
	case tree.PhaseParked:
		r.parked.Record(ctx, took, r.poolLabels.record...)
	case tree.PhaseAttempt:
		r.ended.Add(ctx, 1, r.attemptLabels.get(attemptOutcome{p.Next, p.Lost}).add...)
		if p.Lost {
			r.lost.Add(ctx, 1, r.poolLabels.add...)
		}
	case tree.PhaseRun:
		r.lasted.Record(ctx, took, r.runLabels.get(runOutcome{p.Kind, p.Ended.State, p.Ended.Reason}).record...)
	}
}

// label returns the label of the outcome.
func (e attemptOutcome) label() string {
	switch {
	case e.next == tree.StatePending && e.lost:
		return "redelivered"
	case e.next == tree.StatePending:
		return "made_way"
	case e.next == tree.StateWaiting:
		return "parked"
	}
	return lowerName(e.next)
}

// lowerName returns the name of a state, kind or reason in attributes.
func lowerName(s interface{ String() string }) string { return strings.ToLower(s.String()) }

package telemetry

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/coppice-run/coppice/internal/tree"
)

// Runs writes the spans of runs, and counts them.
type Runs struct {
	*Telemetry
	pool    string
	started metric.Float64Histogram
	queued  metric.Float64Histogram
	parked  metric.Float64Histogram
	lasted  metric.Float64Histogram
	lost    metric.Int64Counter
	ended   metric.Int64Counter // attempts

	inPool   labels
	lives    *sets[life]
	outcomes *sets[ending]
}

// ending is what an attempt that has ended is counted by.
type ending struct {
	next tree.State // of its run
	lost bool       // its worker was
}

// life is what a run that has ended is counted by.
type life struct {
	kind   tree.Kind
	state  tree.State
	reason tree.Reason
}

// Runs makes what writes the spans of the runs of a pool.
func (t *Telemetry) Runs(pool string) (*Runs, error) {
	of := labelPool.String(pool)
	r := &Runs{
		Telemetry: t, pool: pool, inPool: prepare(of),
		lives: newSets(func(l life) []attribute.KeyValue {
			return []attribute.KeyValue{of, labelKind.String(name(l.kind)), labelState.String(name(l.state)), labelReason.String(name(l.reason))}
		}),
		outcomes: newSets(func(e ending) []attribute.KeyValue {
			return []attribute.KeyValue{of, labelOutcome.String(e.outcome())}
		}),
	}
	m := t.instruments()
	r.started = m.histogram("coppice.run.start_delay", "From the acceptance of a run until a worker has it for the first time.")
	r.queued = m.histogram("coppice.run.queue_wait", "How long a run that could go on waited for a worker.")
	r.parked = m.histogram("coppice.run.park_time", "How long a run waited, without a worker, for what it had asked for.")
	r.lasted = m.histogram("coppice.run.duration", "From the acceptance of a run to its end.")
	r.lost = m.counter("coppice.attempt.lost", "{attempt}", "Attempts that ended since their worker was lost or told to stop.")
	r.ended = m.counter("coppice.attempt.ended", "{attempt}", "Attempts that have ended, by what became of the run.")
	r.lost.Add(context.Background(), 0, r.inPool.add...)
	return r, m.err
}

// Passed records a completed phase of a run.
func (r *Runs) Passed(session tree.SessionID, p tree.CompletedPhase) {
	r.count(p)
	if !r.traces || p.Trace.ID == (tree.TraceID{}) {
		return // there is nowhere to send them, or the run was accepted by a release that knew no traces
	}
	ctx := context.Background()
	switch p.Phase {
	case tree.PhaseQueued:
		r.write(r.inRun(ctx, p), spanQueued, p, r.attributes(session, p))
	case tree.PhaseParked:
		r.write(r.inRun(ctx, p), spanParked, p, r.attributes(session, p))
	case tree.PhaseAttempt:
		if p.Lost {
			r.write(r.inRun(ctx, p), spanAttempt, p, append(r.attributes(session, p), keyWorker.String(p.Worker)))
		}
	case tree.PhaseCall:
		r.call(ctx, session, p)
	case tree.PhaseRun:
		r.run(ctx, session, p)
	}
}

// inRun is a context whose spans hang below the run.
func (r *Runs) inRun(ctx context.Context, p tree.CompletedPhase) context.Context {
	return r.below(ctx, p.Trace, tree.RunSpan(p.Task, p.Run))
}

// run writes the span of a run that has ended.
func (r *Runs) run(ctx context.Context, session tree.SessionID, p tree.CompletedPhase) {
	t := p.Ended
	parent := p.Trace.Parent
	if called(t) {
		parent = tree.CallSpan(t.Caller, t.Call)
	}
	ctx = withIDs(r.below(ctx, p.Trace, parent), p.Trace.ID, tree.RunSpan(p.Task, p.Run))
	attrs := append(r.attributes(session, p),
		keyState.String(name(t.State)), keyIterations.Int(t.Iterations), keyTools.Int(t.RunTools),
		keyBackground.Bool(t.Background), keyDepth.Int(t.Depth), keyAbout.String(t.Description),
		keyInput.Int64(heard(t.RunUsage)), keyOutput.Int64(t.RunUsage.Output),
		keyCacheRead.Int64(t.RunUsage.CacheRead), keyCacheWrite.Int64(t.RunUsage.CacheWrite))
	if !t.StartedAt.IsZero() {
		attrs = append(attrs, keyStarted.Float64(t.StartedAt.Sub(t.AcceptedAt).Seconds()))
	}
	if t.Kind == tree.KindAgent {
		attrs = append(attrs, keyOperation.String(opInvokeAgent), keyAgent.String(t.Agent), keyAgentVersion.String(t.AgentVersion))
	}
	if t.Reason != tree.ReasonUnspecified {
		attrs = append(attrs, keyReason.String(name(t.Reason)), keyErrorType.String(name(t.Reason)))
	}
	r.write(ctx, title(t), p, attrs, trace.WithSpanKind(trace.SpanKindInternal))
}

// title is what the span of a run is called.
func title(t *tree.Task) string {
	if t.Kind == tree.KindShell {
		return "command"
	}
	return opInvokeAgent + " " + t.Agent
}

// call writes the span of the call that asked for a run.
func (r *Runs) call(ctx context.Context, session tree.SessionID, p tree.CompletedPhase) {
	t := p.Ended
	ctx = withIDs(r.below(ctx, p.Trace, p.Trace.Parent), p.Trace.ID, tree.CallSpan(t.Caller, t.Call))
	tool := "task"
	if t.Kind == tree.KindShell {
		tool = "bash"
	}
	attrs := []attribute.KeyValue{
		keyOperation.String(opExecuteTool), keyTool.String(tool), keyToolType.String("function"),
		keyConversation.String(session.String()), keySession.String(session.String()), keyTask.String(t.Caller.String()),
		keyBackground.Bool(t.Background),
	}
	if t.State == tree.StateFailed {
		attrs = append(attrs, keyErrorType.String(name(t.Reason)))
	}
	r.write(ctx, opExecuteTool+" "+tool, p, attrs)
}

// called reports whether a run was asked for by a call.
func called(t *tree.Task) bool { return !t.Caller.IsZero() && t.Call != (tree.CallRef{}) }

// write writes a span that is over.
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

// attributes are those that all spans of a run have.
func (r *Runs) attributes(session tree.SessionID, p tree.CompletedPhase) []attribute.KeyValue {
	return []attribute.KeyValue{
		keyConversation.String(session.String()), keySession.String(session.String()), keyTask.String(p.Task.String()),
		keyKind.String(name(p.Kind)), keyRun.Int(p.Run), keyEpoch.Int64(p.Epoch), keyPool.String(r.pool),
	}
}

// count counts a part of a run's life. Agents' names are the operator's and tenants':
// they are no labels.
func (r *Runs) count(p tree.CompletedPhase) {
	ctx := context.Background()
	took := p.To.Sub(p.From).Seconds()
	switch p.Phase {
	case tree.PhaseQueued:
		r.queued.Record(ctx, took, r.inPool.record...)
		if p.First && p.Next == tree.StateRunning {
			r.started.Record(ctx, took, r.inPool.record...)
		}
	case tree.PhaseParked:
		r.parked.Record(ctx, took, r.inPool.record...)
	case tree.PhaseAttempt:
		r.ended.Add(ctx, 1, r.outcomes.get(ending{p.Next, p.Lost}).add...)
		if p.Lost {
			r.lost.Add(ctx, 1, r.inPool.add...)
		}
	case tree.PhaseRun:
		r.lasted.Record(ctx, took, r.lives.get(life{p.Kind, p.Ended.State, p.Ended.Reason}).record...)
	}
}

// outcome is what has become of a run whose attempt has ended.
func (e ending) outcome() string {
	switch {
	case e.next == tree.StatePending && e.lost:
		return "redelivered"
	case e.next == tree.StatePending:
		return "made_way"
	case e.next == tree.StateWaiting:
		return "parked"
	}
	return name(e.next)
}

// name is how a state and the like are called in attributes.
func name(s interface{ String() string }) string { return strings.ToLower(s.String()) }

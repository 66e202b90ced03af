package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// Trace is the place of a run in a trace: the trace and the parent span.
type Trace struct {
	ID     TraceID
	Parent SpanID // zero: the run is the first span of the trace
	Flags  byte   // as in W3C Trace Context, and TraceGiven; zero in a trace of our own
}

// TraceGiven is set in the flags of a trace that a client has started. Whether it is recorded is
// the client's decision, in the other flags.
const TraceGiven = 0x80

// TraceID names a trace, as in W3C Trace Context.
type TraceID [16]byte

// SpanID names a span: the bytes of W3C Trace Context as a number.
type SpanID uint64

// IsZero reports whether no trace is given.
func (t Trace) IsZero() bool { return t == Trace{} }

// RunSpan is the span of a run. It follows from the task and the run alone, so every worker of the
// run knows it before it is written, and it is the same each time that it is written.
func RunSpan(task TaskID, run int) SpanID {
	return spanID(spanSum('r', task, run, 0))
}

// CallSpan is the span of a call of a task.
func CallSpan(task TaskID, ref CallRef) SpanID {
	return spanID(spanSum('c', task, ref.Message, ref.Block))
}

func spanID(sum [sha256.Size]byte) SpanID { return SpanID(binary.BigEndian.Uint64(sum[:])) }

func spanSum(what byte, task TaskID, a, b int) [sha256.Size]byte {
	name := append([]byte{what}, task[:]...)
	name = binary.BigEndian.AppendUint64(name, uint64(a))
	return sha256.Sum256(binary.BigEndian.AppendUint64(name, uint64(b)))
}

// childTrace is the trace of what a run asks for.
func (t *Task) childTrace() Trace {
	return Trace{ID: t.Trace.ID, Parent: RunSpan(t.ID, t.Run), Flags: t.Trace.Flags}
}

// traceOf is the place of a new run in a trace: below the span that the client has named, or below
// the run that asks for it, or in a trace of its own.
func (d *decision) traceOf(t *Task, a requester) Trace {
	if !a.trace.IsZero() {
		return a.trace
	}
	if !a.by.IsZero() {
		return d.view.task(a.by).childTrace()
	}
	sum := spanSum('t', t.ID, t.Run, 0)
	return Trace{ID: TraceID(sum[:16])}
}

// CompletedPhase is a phase in the life of a run that is over. It is reported for metrics and
// traces, and not stored.
type CompletedPhase struct {
	Phase  Phase
	Task   TaskID
	Run    int
	Kind   Kind
	Agent  string
	Trace  Trace
	Epoch  int64
	Worker string // of an attempt
	Lost   bool   // the attempt ended because its worker was lost
	Next   State  // the state that the run has entered; unset for PhaseCall and PhaseRun
	First  bool   // the first such phase of the run
	From   time.Time
	To     time.Time
	Ended  *Task // of PhaseRun and PhaseCall: the task as it was when the run ended
}

// Phase is a phase in the life of a run.
type Phase uint8

// The phases.
const (
	PhaseUnspecified Phase = iota
	PhaseQueued            // waited for a worker
	PhaseAttempt           // was with a worker
	PhaseParked            // waited for what it had asked for
	PhaseCall              // a call waited for it
	PhaseRun               // the whole run, from its acceptance to its end
)

// recordStateLeft reports that the run leaves its state, and whether because its worker was lost.
func (d *decision) recordStateLeft(t *Task, to State, lost bool) {
	if d.env.SkipMetrics {
		return
	}
	p := CompletedPhase{From: t.MovedAt, Next: to}
	switch t.State {
	case StatePending:
		p.Phase, p.First = PhaseQueued, t.StartedAt.IsZero() || t.StartedAt.Equal(d.env.Now)
	case StateRunning:
		p.Phase, p.Worker = PhaseAttempt, t.Worker
		p.Lost = lost || t.Reason == ReasonInterrupted || t.Reason == ReasonPoisoned
	case StateWaiting:
		p.Phase = PhaseParked
	default:
		return
	}
	d.recordPhase(t, p)
}

// recordPhase completes a phase of a run and reports it.
func (d *decision) recordPhase(t *Task, p CompletedPhase) {
	p.Task, p.Run, p.Kind, p.Agent, p.Trace, p.Epoch, p.To = t.ID, t.Run, t.Kind, t.Agent, t.Trace, t.Epoch, d.env.Now
	d.view.changes.Phases = append(d.view.changes.Phases, p)
}

// recordCallPhase reports that a call no longer waits for the run: it has the run's result, or its
// task continues without that.
func (d *decision) recordCallPhase(t *Task) {
	if d.env.SkipMetrics || t.Caller.IsZero() || t.Call == (CallRef{}) {
		return
	}
	ended := *t
	d.recordPhase(t, CompletedPhase{Phase: PhaseCall, From: t.AcceptedAt, Ended: &ended})
}

// recordRunPhase reports a run that has ended.
func (d *decision) recordRunPhase(t *Task) {
	if d.env.SkipMetrics {
		return
	}
	ended := *t
	d.recordPhase(t, CompletedPhase{Phase: PhaseRun, From: t.AcceptedAt, Ended: &ended})
}

// SpawnOutcome is the result of a request for a child. It is reported for metrics, and not stored.
type SpawnOutcome struct {
	Kind    Kind
	Refused string // the reason, see [Error.Reason]; empty: the child was started
}

// recordSpawn reports the result of a request for a child.
func (d *decision) recordSpawn(kind Kind, err error) {
	if d.env.SkipMetrics {
		return
	}
	v := SpawnOutcome{Kind: kind}
	if err != nil {
		v.Refused = reasonOther
		if known, ok := errors.AsType[*Error](err); ok {
			v.Refused = known.Reason()
		}
	}
	d.view.changes.SpawnOutcomes = append(d.view.changes.SpawnOutcomes, v)
}

// reasonOther stands for reasons without a name.
const reasonOther = "OTHER"

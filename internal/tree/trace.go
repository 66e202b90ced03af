package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"
)

// Trace is where a run hangs in a trace: in which, and below which span.
type Trace struct {
	ID     TraceID
	Parent SpanID // zero: the run is the first of its trace
	Flags  byte   // as W3C has them, and TraceGiven; zero in a trace of our own
}

// TraceGiven is set in the flags of a trace that a client has begun: whether it is
// recorded is up to the client, and stands in the flags.
const TraceGiven = 0x80

// TraceID names a trace, as W3C has it.
type TraceID [16]byte

// SpanID names a span: the bytes that W3C has, as a number.
type SpanID uint64

// IsZero reports whether nothing is said of a trace.
func (t Trace) IsZero() bool { return t == Trace{} }

// RunSpan is the span of a run. It follows from which run it is, so whoever works on
// the run knows it before it is written, and it is the same however often it is.
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

// traceOf says where the run that begins hangs: below the span of the client that asks
// for it, if it has named one, below the run that asks for it, or in a trace of its own.
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

// CompletedPhase is a part of the life of a run that is over. It is told to those who measure,
// and stored nowhere.
type CompletedPhase struct {
	Phase  Phase
	Task   TaskID
	Run    int
	Kind   Kind
	Agent  string
	Trace  Trace
	Epoch  int64
	Worker string // of an attempt
	Lost   bool   // the attempt ended since its worker was lost
	Next   State  // of the run, which it has left its last one for; of a part of one alone
	First  bool   // it is the first of its kind of the run
	From   time.Time
	To     time.Time
	Ended  *Task // of a whole run or its call: the task as it was when the run ended
}

// Phase is a part of the life of a run.
type Phase uint8

// The parts.
const (
	PhaseUnspecified Phase = iota
	PhaseQueued            // waited for a worker
	PhaseAttempt           // was with one
	PhaseParked            // waited for what it had asked for
	PhaseCall              // somebody's call waited for it
	PhaseRun               // all of it, from its acceptance to its end
)

// recordStateLeft tells that the run leaves its state, and whether since its worker was lost.
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

// recordPhase completes what is told of a run.
func (d *decision) recordPhase(t *Task, p CompletedPhase) {
	p.Task, p.Run, p.Kind, p.Agent, p.Trace, p.Epoch, p.To = t.ID, t.Run, t.Kind, t.Agent, t.Trace, t.Epoch, d.env.Now
	d.view.changes.Phases = append(d.view.changes.Phases, p)
}

// recordCallPhase tells of a call that waits for the run no more: it has the run's result, or
// the run goes on without it.
func (d *decision) recordCallPhase(t *Task) {
	if d.env.SkipMetrics || t.Caller.IsZero() || t.Call == (CallRef{}) {
		return
	}
	ended := *t
	d.recordPhase(t, CompletedPhase{Phase: PhaseCall, From: t.AcceptedAt, Ended: &ended})
}

// recordRunPhase tells of a run that has ended.
func (d *decision) recordRunPhase(t *Task) {
	if d.env.SkipMetrics {
		return
	}
	ended := *t
	d.recordPhase(t, CompletedPhase{Phase: PhaseRun, From: t.AcceptedAt, Ended: &ended})
}

// SpawnOutcome is what became of the wish for a child. It is told to those who measure, and
// stored nowhere.
type SpawnOutcome struct {
	Kind    Kind
	Refused string // the reason, as [Error.Reason] has it; empty: the child was started
}

// recordSpawn tells what became of the wish for a child.
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

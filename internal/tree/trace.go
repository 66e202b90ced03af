package tree

import (
	"crypto/sha256"
	"encoding/binary"
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

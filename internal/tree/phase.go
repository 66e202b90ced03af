package tree

import (
	"errors"
	"time"
)

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

package tree

import (
	"fmt"
	"slices"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// StartHooks stores the results of the hooks on the start of a sub-agent's run, once per run and
// before its first model call. The output of passed hooks becomes a message of the transcript.
// Answer: [Stored].
type StartHooks struct {
	From
	Ran []HookRun
}

// StopHooks is End for an answer that hooks have checked. If a hook wants the sub-agent to
// continue, the answer and the hook's output are stored, and the answer is [Stored] with a
// boundary. A run continues that way at most [MaxStopHooks] times, and not when its model calls are
// used up. Otherwise the run ends, and the answer is that of [End].
type StopHooks struct {
	From
	Answer *Message
	Ran    []HookRun
	Left   string
}

// HookRun is one run of a hook, as reported by a worker.
type HookRun struct {
	Event    HookEvent
	Name     string
	Matcher  string // the glob of agents that it applies to
	Outcome  HookOutcome
	Millis   int64  // duration
	Output   string // for the model: the context of a start hook, or the objection of a stop hook
	Message  string // for people: the error, or a summary of the output
	ExitCode int    // of a command that exited by itself
}

// HookEvent is the event that a hook runs on.
type HookEvent uint8

// The events of hooks.
const (
	HookEventUnspecified HookEvent = iota
	SubagentStart
	SubagentStop
)

func (e HookEvent) String() string {
	switch e {
	case SubagentStart:
		return "SubagentStart"
	case SubagentStop:
		return "SubagentStop"
	}
	return "unspecified"
}

// HookOutcome is the result of a hook.
type HookOutcome uint8

// The results of hooks. Only HookBlocked changes what the run does.
const (
	HookOutcomeUnspecified HookOutcome = iota
	HookPassed                         // it does not object
	HookBlocked                        // the sub-agent continues
	HookOverruled                      // it wanted the sub-agent to continue, which has done so often enough
	HookFailed                         // an exit code, a signal, an HTTP status, or an invalid answer
	HookTimedOut                       // it took too long and was stopped
	HookMissing                        // the program is missing or not executable, or no connection could be made
	HookForbidden                      // it comes with the definition, and the worker runs no such hooks
)

func (o HookOutcome) String() string {
	switch o {
	case HookPassed:
		return "passed"
	case HookBlocked:
		return "blocked"
	case HookOverruled:
		return "overruled"
	case HookFailed:
		return "failed"
	case HookTimedOut:
		return "timed out"
	case HookMissing:
		return "missing"
	case HookForbidden:
		return "forbidden"
	}
	return "unspecified"
}

// Limits of hooks.
const (
	// MaxStopHooks is how often stop hooks may make one run continue.
	MaxStopHooks = 5
	// MaxHooks is how many hooks may run on one event of a run.
	MaxHooks = 50
	// maxHookMessage limits the message of a hook in an event, in bytes.
	maxHookMessage = 1 << 10
)

func (c StartHooks) needs(n *needs) { n.boundary(n.task(c.From.Task)) }

func (c StartHooks) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	switch {
	case err != nil:
		return nil, err
	case t.OpenCalls > 0:
		return nil, ErrCallsOpen
	case t.StartHooked || t.Iterations > 0:
		return nil, ErrHooksRan
	}
	if err := d.checkHookRuns(t, SubagentStart, c.Ran); err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	t.StartHooked = true
	d.emitHookRuns(t, c.Ran)
	d.appendOutputs(t, c.Ran, HookPassed, "Context from the hook %q:\n%s")
	d.takeInboxForModel(t)
	return d.atBoundary(t), nil
}

func (c StopHooks) needs(n *needs) { n.complete(n.task(c.From.Task)) }

func (c StopHooks) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	switch {
	case err != nil:
		return nil, err
	case t.OpenCalls > 0:
		return nil, ErrCallsOpen
	case c.Answer == nil:
		return nil, ErrEmpty.With("the answer")
	}
	if err := d.mayAnswer(t, c.Answer); err != nil {
		return nil, err
	}
	if err := d.checkHookRuns(t, SubagentStop, c.Ran); err != nil {
		return nil, err
	}
	ran := slices.Clone(c.Ran)
	blocked := slices.ContainsFunc(ran, func(r HookRun) bool { return r.Outcome == HookBlocked })
	if !blocked || t.StopHooked >= MaxStopHooks || t.Iterations+1 >= t.MaxIterations || d.wouldSpendBudget(c.Answer) {
		for i := range ran {
			if ran[i].Outcome == HookBlocked {
				ran[i].Outcome = HookOverruled
			}
		}
		d.emitHookRuns(t, ran)
		return End{From: c.From, Answer: c.Answer, Left: c.Left}.decide(d)
	}
	d.recordRequest(t, c.From)
	t.StopHooked++
	d.emitHookRuns(t, ran)
	m := d.appendAnswer(t, *c.Answer)
	d.appendOutputs(t, ran, HookBlocked, "The hook %q does not let you end yet:\n%s")
	d.takeInbox(t)
	stored := d.atBoundary(t)
	stored.Ordinal = m.Ordinal
	return stored, nil
}

// checkHookRuns refuses results of hooks that no worker reports.
func (d *decision) checkHookRuns(t *Task, event HookEvent, ran []HookRun) error {
	switch {
	case t.Depth == 0:
		return ErrBadInput.With("only sub-agents have hooks, and the task is the root")
	case len(ran) > MaxHooks:
		return ErrTooLarge.With("%d hooks, the bound is %d", len(ran), MaxHooks)
	}
	for i, r := range ran {
		switch {
		case r.Event != event:
			return ErrBadInput.With("hook %d is for the event %s", i, r.Event)
		case r.Outcome == HookOutcomeUnspecified || r.Outcome > HookForbidden || r.Outcome == HookOverruled:
			return ErrBadInput.With("hook %d has the outcome %d", i, r.Outcome)
		case r.Outcome == HookBlocked && event != SubagentStop:
			return ErrBadInput.With("hook %d blocks the start of a run, and only a stop can be blocked", i)
		case r.Millis < 0:
			return ErrBadInput.With("hook %d has a negative duration", i)
		}
		if err := checkName("a hook's name", r.Name); err != nil {
			return err
		}
		if err := checkName("a hook's matcher", r.Matcher); err != nil {
			return err
		}
		if err := d.session().Limits.checkPart("a hook's output", r.Output); err != nil {
			return err
		}
	}
	return nil
}

// emitHookRuns emits an event for each run of a hook.
func (d *decision) emitHookRuns(t *Task, ran []HookRun) {
	for _, r := range ran {
		message := excerpt.Tail(r.Message, maxHookMessage)
		d.emit(t, HookRan{
			Event: r.Event, Name: r.Name, Matcher: r.Matcher, Outcome: r.Outcome,
			Millis: r.Millis, ExitCode: r.ExitCode, Message: message,
		})
	}
}

// appendOutputs adds the outputs of hooks with an outcome as one user message for the model, one
// block per hook.
func (d *decision) appendOutputs(t *Task, ran []HookRun, outcome HookOutcome, form string) {
	var blocks []Block
	for _, r := range ran {
		if r.Outcome == outcome && (r.Output != "" || outcome == HookBlocked) {
			blocks = append(blocks, Text{Text: fmt.Sprintf(form, r.Name, r.Output)})
		}
	}
	if len(blocks) > 0 {
		d.append(t, &Message{Role: RoleUser, Blocks: blocks})
	}
}

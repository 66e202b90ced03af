package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// finalLines bounds the tree that is left on a terminal at the end. coppice tree shows a larger
// one completely.
const finalLines = 200

// showOptions configures how a session is shown until it is over.
type showOptions struct {
	client       *client
	session      string
	after        int64
	untilIdle    bool
	deltas       bool // with JSON: also pieces of answers
	quiet        bool // only the answer
	inProcess    bool // the session runs in this process, so an interrupt ends it
	decisionHelp decisionHelp
	denials      *denials // collects denied calls; may be nil
	lastSeq      *int64   // receives the number of the last event before the session was idle; may be nil
}

// show shows a session in the way that suits standard output, until it is idle (if requested) or
// ctx ends, and then its answer. The error is the exit code of a root that did not complete, or of
// a blocked session.
func (a *app) show(ctx context.Context, f showOptions) error {
	f.decisionHelp = f.decisionHelp.forSession(f.session)
	w := &watcher{client: f.client.sessions, session: f.session, untilIdle: f.untilIdle, denials: f.denials}
	_, terminal := a.terminal(a.Stdout)
	var idle *pb.Idle
	var err error
	switch {
	case f.quiet:
		idle, err = w.each(ctx, func(*pb.WatchSessionResponse) error { return nil })
	case a.json:
		w.after, w.deltas = f.after, f.deltas
		idle, err = w.each(ctx, func(step *pb.WatchSessionResponse) error { return a.printJSON(step) })
	case terminal && f.after == 0: // a tree cannot be drawn from only the later events
		idle, err = a.showLive(ctx, f, w)
	default:
		idle, err = a.showPlain(ctx, f, w)
	}
	switch {
	case ctx.Err() != nil && f.inProcess:
		return errors.Join(context.Cause(ctx), a.showFinished(ctx, f))
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return during("watching the session", err)
	}
	if f.lastSeq != nil {
		*f.lastSeq = idle.GetLastSeq()
	}
	blocked := idle.GetCause() == pb.IdleCause_IDLE_CAUSE_BLOCKED
	if blocked && !hasEnded(idle.GetRoot().GetState()) {
		return a.reportBlocked(ctx, f)
	}
	resp, err := f.client.tasks.GetTask(ctx, &pb.GetTaskRequest{SessionId: f.session, TaskId: idle.GetRoot().GetId()})
	if err != nil {
		return during("reading the answer", err)
	}
	switch err := a.answer(resp, f); {
	case err != nil:
		return err
	case blocked: // by tasks that the root does not wait for
		return a.reportBlocked(ctx, f)
	}
	return outcome(resp.GetTask())
}

// answer prints the answer of a task that has ended.
func (a *app) answer(resp *pb.GetTaskResponse, f showOptions) error {
	if a.json {
		return a.printJSON(resp)
	}
	return a.printAnswer(resp.GetTask(), !f.quiet)
}

// finishedTimeout bounds showFinished after an interrupt.
const finishedTimeout = 2 * time.Second

// showFinished prints the answer of a root that has ended while tasks below it continue. Otherwise
// the answer would be lost with the process.
func (a *app) showFinished(ctx context.Context, f showOptions) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), finishedTimeout)
	defer stop()
	found, err := f.client.sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: f.session})
	if err != nil {
		return nil // the command was interrupted anyway
	}
	resp, err := f.client.tasks.GetTask(ctx, &pb.GetTaskRequest{SessionId: f.session, TaskId: found.GetSession().GetRootTaskId()})
	if err != nil || !hasEnded(resp.GetTask().GetState()) {
		return nil
	}
	return a.answer(resp, f)
}

// showPlain shows the session in lines.
func (a *app) showPlain(ctx context.Context, f showOptions, w *watcher) (*pb.Idle, error) {
	w.deltas = true // they include the restarts of failed model calls
	p := &plainView{out: a.Stdout, theme: a.theme(), forest: newForest(), decisionHelp: f.decisionHelp, after: f.after}
	w.onLost = func(error) {
		if p.connectionLost() {
			a.complain(connectionLost)
		}
	}
	w.onConnected = func() {
		if p.connectionBack() {
			a.complain(connectedAgain)
		}
	}
	stop := p.watchStalls(ctx, f.client.whyQueued)
	idle, err := w.each(ctx, p.step)
	stop()
	if err == nil {
		err = a.print(p.forest.summary(a.now(), p.theme.separator))
	}
	return idle, err
}

// asksAtTerminal reports whether a person at a terminal can decide on approvals while the session
// is drawn there.
func (a *app) asksAtTerminal() bool {
	_, in := a.terminal(a.Stdin)
	_, out := a.terminal(a.Stdout)
	return in && out && isTerminal(a.Stderr) && !a.json
}

// showLive draws on the terminal, and leaves the last picture there.
func (a *app) showLive(ctx context.Context, f showOptions, w *watcher) (*pb.Idle, error) {
	w.deltas = true
	l := &liveView{
		forest: newForest(), theme: a.theme(), now: a.now, interrupt: a.Interrupt, decisionHelp: f.decisionHelp,
		why: func() string { return f.client.whyQueued(ctx) },
	}
	in := a.Stdin
	if _, terminal := a.terminal(a.Stdin); !terminal {
		in = nil
	}
	if a.asksAtTerminal() {
		l.questions.decide, l.questions.help, l.decisionHelp = f.client.decider(ctx), f.decisionHelp, decisionHelp{}
		l.questions.help.decideText = nil
	}
	idle, err := l.draw(ctx, w, in, a.Stdout)
	if l.forest.root == nil {
		return idle, err
	}
	if ctx.Err() != nil {
		l.forest.dropQuestions()
	}
	width, _ := a.terminal(a.Stdout)
	lines := l.forest.draw(canvas{theme: l.theme, width: width, height: finalLines, now: a.now(), frame: -1, decisionHelp: f.decisionHelp})
	lines = append(lines, l.theme.dim.Render(l.forest.summary(a.now(), l.theme.separator)))
	if printErr := a.print(lines...); err == nil {
		err = printErr
	}
	return idle, err
}

// printAnswer prints the answer of a task that has ended, or why there is none.
func (a *app) printAnswer(t *pb.Task, apart bool) error {
	if reason := reasonText(t.GetReason(), t.GetDetail()); reason != "" && t.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		verb := "the task "
		if t.GetState() == pb.TaskState_TASK_STATE_CANCELLED {
			verb += "was "
		}
		a.complain(verb + stateText(t.GetState()) + ": " + reason)
	}
	answer := strings.TrimSpace(safeText(t.GetResult()))
	if words := strings.TrimSpace(safeText(t.GetUnfinished())); words != "" {
		answer = "[unfinished] " + words
	}
	if width, terminal := a.terminal(a.Stdout); terminal {
		answer = ansi.Wordwrap(answer, width, "")
	}
	switch {
	case answer == "":
		return nil
	case apart:
		answer = "\n" + answer
	}
	return a.print(answer)
}

// outcome returns the exit code of a task that did not complete.
func outcome(t *pb.Task) error {
	switch t.GetState() {
	case pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_CANCELLED:
		return exitCode(exitFailed)
	}
	return nil
}

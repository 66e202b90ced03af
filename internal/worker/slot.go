package worker

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/telemetry"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
	"github.com/coppice-run/coppice/internal/workspace"
)

// runSlot claims and executes runs over a connection of its own. It returns when workCtx ends, or
// when claimCtx has ended and the slot has no run.
func (w *Worker) runSlot(workCtx, claimCtx context.Context) {
	c := w.newConn()
	connCtx, closeConn := context.WithCancel(workCtx)
	var keeping sync.WaitGroup
	keeping.Go(func() { c.stayConnected(connCtx) })
	defer keeping.Wait()
	defer closeConn()
	for c.waitConnected(claimCtx) {
		w.idleSlots <- struct{}{}
		d, found := w.waitForHint(claimCtx, c)
		switch {
		case found:
			c.preferReplica(d.Hint.From)
			w.claimHint(workCtx, c, d.Hint, d.ID)
		case claimCtx.Err() != nil:
			return
		case !w.isDraining():
			c.offerStandby(w.newClaim())
		}
		for w.runGiven(workCtx, claimCtx, c) {
		}
	}
}

// waitForHint waits for a hint, preferably from the replica that the slot is connected to. found
// is false if ctx ends, or if Redis cannot be read.
func (w *Worker) waitForHint(ctx context.Context, c *conn) (d dispatch.Delivery, found bool) {
	for c.waitConnected(ctx) {
		replica, changed := c.currentReplica()
		select {
		case d = <-w.hintRouter.forReplica(replica):
			return d, true
		case d = <-w.hintRouter.shared:
			return d, true
		case <-w.hintsUnavailable:
			return d, false
		case <-changed:
		case <-ctx.Done():
			return d, false
		}
	}
	return d, false
}

// claimHint claims the run of a hint and executes it. If the claim gets no answer, the hint stays
// in the stream until another worker takes it over.
func (w *Worker) claimHint(workCtx context.Context, c *conn, hint dispatch.Hint, id string) {
	log := w.attemptLogger(hint.Session, hint.Task, hint.Epoch)
	ctx, cancel := context.WithCancel(workCtx)
	defer cancel()
	claim := w.newClaim()
	claim.SessionId, claim.TaskId, claim.Epoch = hint.Session.String(), hint.Task.String(), hint.Epoch
	a, journal, err := c.claim(ctx, cancel, claim, w.transcripts.Get(transcript.Key{Session: hint.Session, Task: hint.Task}))
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.cause == pb.RefusedCause_REFUSED_CAUSE_PROTOCOL:
		log.ErrorContext(ctx, "the orchestrator does not support the protocol version of this worker")
		c.cancelStream()
		return
	case errors.As(err, &refused):
		log.DebugContext(ctx, "the claim was refused", "cause", refused.cause)
		w.acks.add(id)
		return
	case err != nil:
		return
	}
	w.acks.add(id)
	w.runAttempt(workCtx, ctx, c, a, journal)
}

// newClaim returns a claim that does not name a run yet.
func (w *Worker) newClaim() *pb.Claim {
	return &pb.Claim{
		Nonce: rand.Uint64(), WorkerId: w.ID, Protocol: wire.Protocol, Features: wire.WorkerFeatures(), AlivePort: uint32(w.AlivePort),
	}
}

// attemptLogger returns a logger with the attributes of an attempt.
func (w *Worker) attemptLogger(session, task any, epoch int64) *slog.Logger {
	return lazyLogger(w.Logger, func() []any { return []any{"session_id", session, "task_id", task, "epoch", epoch} })
}

// runGiven executes the run that the orchestrator gave the slot, either with the end of its last
// run or while it stood by. It reports whether there was one.
func (w *Worker) runGiven(workCtx, claimCtx context.Context, c *conn) bool {
	c.waitStandby(claimCtx)
	ctx, cancel := context.WithCancel(workCtx)
	defer cancel()
	a, journal, err := c.takeGivenRun(ctx, cancel)
	switch {
	case err != nil:
		w.Logger.DebugContext(ctx, "a run that was handed to this slot is no longer available", "error", err)
	case a != nil:
		w.runAttempt(workCtx, ctx, c, a, journal)
	}
	return a != nil
}

// runAttempt executes an attempt until its run is given back or lost. ctx is the attempt's.
func (w *Worker) runAttempt(workCtx, ctx context.Context, c *conn, a *assignment, journal *journal) {
	task := a.GetTask()
	log := w.attemptLogger(task.GetSessionId(), task.GetId(), task.GetEpoch())
	w.busy.Add(1)
	defer w.busy.Add(-1)
	ctx = telemetry.WithTraceParent(ctx, a.GetTraceParent())
	outcome := w.execute(workCtx, ctx, log, a, journal)
	switch {
	case outcome != loop.Lost:
	case workCtx.Err() != nil:
		log.InfoContext(ctx, "the worker stops and gives the run back")
	default:
		log.InfoContext(ctx, "the attempt is over: its run was cancelled, or continues elsewhere")
		if c.isCurrent(journal) {
			// The orchestrator does not know yet; it notices when the stream ends.
			c.loseAttempt()
			c.cancelStream()
		}
	}
}

// execute runs an attempt in its workspace. The run's background commands keep the workspace until
// they have ended, or until workCtx ends.
func (w *Worker) execute(workCtx, ctx context.Context, log *slog.Logger, a *assignment, j *journal) loop.Outcome {
	place, err := w.enterWorkspace(ctx, a)
	if err != nil {
		return w.failRun(ctx, log, j, err)
	}
	defer func() {
		if err := place.Leave(); err != nil {
			log.WarnContext(ctx, "leaving the workspace failed", "error", err)
		}
	}()
	j.launch = func(c *backgroundCommand) {
		c.place = place.Share()
		w.launch(workCtx, c)
	}
	run, err := w.newRun(ctx, a, j, place)
	if err != nil {
		return w.failRun(ctx, log, j, err)
	}
	if !place.OwnsWorktree() { // otherwise its worktree is cleaned up first
		j.offerSlot = func() (*pb.Takes, []tree.Message) { return w.offerSlot(run.Session, a.GetTask().GetParentId()) }
	}
	claimed := run.Transcript // Do adds to it
	outcome, err := run.Do(ctx)
	if err != nil {
		log.ErrorContext(ctx, "the attempt failed", "error", err)
	}
	switch outcome {
	case loop.Ended:
		removeUnchangedWorktree(ctx, log, place)
	case loop.Parked:
		if len(a.heldMessages) == 0 { // otherwise it is cached already
			w.transcripts.Put(transcript.Key{Session: run.Session, Task: run.Task}, claimed)
		}
	}
	return outcome
}

// failRun ends a run that cannot be started. If ctx has ended, that may be the cause; then the run
// is left to other workers.
func (w *Worker) failRun(ctx context.Context, log *slog.Logger, j *journal, why error) loop.Outcome {
	if ctx.Err() != nil {
		return loop.Lost
	}
	log.ErrorContext(ctx, "the assigned run cannot be started", "error", why)
	detail := strings.ToValidUTF8(why.Error(), "\uFFFD")
	j.End(loop.Ending{Reason: tree.ReasonRuntimeError, Detail: detail}).Wait(ctx) //nolint:errcheck // nothing can be done about a lost attempt
	return loop.Ended
}

// newRun builds the loop's input from an assignment.
func (w *Worker) newRun(ctx context.Context, a *assignment, j *journal, place *workspace.Place) (*loop.Run, error) {
	task := a.GetTask()
	def, err := w.definitions.parse(task.GetAgent(), a.GetAgentDefinition())
	if err != nil {
		return nil, err
	}
	tools, err := w.tools(ctx, place, def, spawnable(a))
	if err != nil {
		return nil, err
	}
	session, err := tree.ParseID[tree.Session](task.GetSessionId())
	if err != nil {
		return nil, err
	}
	id, err := tree.ParseID[tree.Task](task.GetId())
	if err != nil {
		return nil, err
	}
	messages, err := wire.MessagesFrom(a.sentMessages)
	if err != nil {
		return nil, err
	}
	if len(a.heldMessages) > 0 {
		messages = w.transcripts.Extend(transcript.Key{Session: session, Task: id}, a.heldMessages, messages)
	}
	run := &loop.Run{
		Session: session, Task: id, Agent: task.GetAgent(), Depth: int(task.GetDepth()),
		System: def.Prompt, Reminder: joinReminders(def.Reminder, tools.note), Transcript: messages,
		Provider: task.GetModelProvider(), ModelName: modelName(task, def.Definition),
		Iterations: int(task.GetIterations()), MaxIterations: int(a.GetMaxIterations()), BudgetSpent: a.GetBudgetSpent(),
		CanCompact: a.GetTakesCompact(), CompactAt: def.CompactAt,
		MaxPartBytes: int(a.GetMaxPartBytes()), NoBackground: a.GetNoBackground(), TakesCommands: a.GetTakesCommands(), ToBackground: j.conn.backgroundRequests(),
		Authority: policy.Authority(a.GetAuthority()), Source: a.GetSource(),
		Model: w.Model, Tools: tools.initial, DeferredTools: tools.deferred, Workspace: place.Workspace, Journal: j, Secrets: w.Secrets, Now: w.Now, Observer: w.Observe,
		Leftovers: place.ChangesNote, TakesLeftovers: a.GetTakesLeft(),
		Logger: lazyLogger(w.Logger, func() []any {
			return []any{"session_id", session, "task_id", id, "run", task.GetRun(), "epoch", task.GetEpoch()}
		}),
	}
	w.addHooks(run, a, def.Hooks)
	for _, c := range a.GetOpenCalls() {
		run.OpenCalls = append(run.OpenCalls, tree.Call{
			Ref: tree.CallRef{Block: int(c.GetBlock())}, State: tree.CallState(c.GetState()),
		})
	}
	return run, nil
}

// joinReminders joins the reminder of a definition and the note on missing tools.
func joinReminders(reminder, note string) string {
	if reminder != "" && note != "" {
		return reminder + "\n\n" + note
	}
	return reminder + note
}

// modelName returns the model that the task has pinned. An older orchestrator pins none, so the
// requested names are the fallback.
func modelName(task *pb.Task, def *agentdef.Definition) string {
	for _, name := range []string{task.GetModelName(), task.GetModel(), def.Model} {
		if name != "" && name != agentdef.Inherit {
			return name
		}
	}
	return ""
}

func spawnable(a *assignment) []tool.Spawnable {
	out := make([]tool.Spawnable, len(a.GetSpawnable()))
	for i, s := range a.GetSpawnable() {
		out[i] = tool.Spawnable{Name: s.GetName(), WhenToUse: s.GetDescription(), Background: s.GetBackground()}
	}
	return out
}

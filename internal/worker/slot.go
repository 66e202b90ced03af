package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// slot keeps one stream open and works on it until ctx ends.
func (w *Worker) slot(ctx context.Context) error {
	var held *dispatch.Delivery // a hint that came while there was no stream
	free := false               // whether this slot has asked for a hint
	for wait := retryAfter; ctx.Err() == nil; {
		l, err := openLine(ctx, w.Client)
		if err != nil {
			w.Logger.DebugContext(ctx, "no stream to an orchestrator", "error", err)
			pause(ctx, wait/2+rand.N(wait))
			wait = min(2*wait, retryAtMost)
			continue
		}
		served := false
		if l.welcome.GetProtocol() < Protocol {
			w.Logger.WarnContext(ctx, "the orchestrator speaks an older protocol",
				"protocol", l.welcome.GetProtocol(), "want", Protocol, "replica", l.welcome.GetReplicaId())
		} else {
			select {
			case w.installation <- l.welcome.GetInstallationId():
			default:
			}
			served = w.serve(ctx, l, &held, &free)
		}
		l.close()
		if served {
			wait = retryAfter
			continue
		}
		// Streams can be had, but nothing is answered on them.
		pause(ctx, wait/2+rand.N(wait))
		wait = min(2*wait, retryAtMost)
	}
	return nil
}

// serve claims and runs on one stream until it breaks or ctx ends, and reports
// whether any claim was answered.
func (w *Worker) serve(ctx context.Context, l *line, held **dispatch.Delivery, free *bool) (answered bool) {
	for {
		if *held == nil {
			if !*free {
				w.free <- struct{}{}
				*free = true
			}
			select {
			case d := <-w.hints:
				*held, *free = &d, false
			case <-l.broken:
				return answered
			case <-ctx.Done():
				return answered
			}
		}
		if !w.attempt(ctx, l, (*held).Hint, (*held).ID) {
			return answered
		}
		*held, answered = nil, true
	}
}

// attempt claims what a hint names and carries it forward. It reports false if
// the stream broke before the claim was answered, so that the hint still counts.
func (w *Worker) attempt(ctx context.Context, l *line, hint dispatch.Hint, id string) bool {
	log := w.Logger.With("session_id", hint.Session, "task_id", hint.Task, "epoch", hint.Epoch)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a, err := l.claim(ctx, cancel, &pb.Claim{
		SessionId: hint.Session.String(), TaskId: hint.Task.String(), Epoch: hint.Epoch,
		Nonce: rand.Uint64(), WorkerId: w.ID, Protocol: Protocol,
	})
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		log.DebugContext(ctx, "the claim was refused", "cause", refused.cause)
		w.done(ctx, id)
		return true
	case err != nil:
		return false
	}
	w.done(ctx, id)
	run, err := w.prepare(a, l)
	if err != nil {
		log.ErrorContext(ctx, "the assignment can't be run", "error", err)
		ending := loop.Ending{Reason: tree.ReasonRuntimeError, Detail: err.Error()}
		_, err := l.End(ending).Wait(ctx)
		return err == nil
	}
	outcome, err := run.Do(ctx)
	if err != nil {
		log.ErrorContext(ctx, "the attempt failed", "error", err)
	}
	if outcome == loop.Lost {
		// Whatever is still under way on this stream is void; a new one is clean.
		log.InfoContext(ctx, "the attempt is lost")
		l.close()
	}
	return true
}

// done takes a hint off the dispatch stream. If that fails the hint comes again
// and its claim is refused.
func (w *Worker) done(ctx context.Context, id string) {
	if err := w.bus.Load().Done(ctx, w.Pool, id); err != nil && ctx.Err() == nil {
		w.Logger.WarnContext(ctx, "taking a hint off the stream failed", "error", err)
	}
}

// prepare puts together what the loop needs.
func (w *Worker) prepare(a *assignment, l *line) (*loop.Run, error) {
	task := a.GetTask()
	def, err := agentdef.Parse("pinned definition of "+task.GetAgent(), a.GetAgentDefinition())
	if err != nil {
		return nil, err
	}
	tools, err := tool.Select(append([]tool.Tool{tool.NewTask(spawnable(a))}, w.Tools...), def.Tools)
	if err != nil {
		return nil, err
	}
	if len(a.GetSpawnable()) == 0 {
		tools = slices.DeleteFunc(tools, func(t tool.Tool) bool { return t.Effect() == tool.EffectDelegated })
	}
	session, err := tree.ParseID[tree.Session](task.GetSessionId())
	if err != nil {
		return nil, err
	}
	id, err := tree.ParseID[tree.Task](task.GetId())
	if err != nil {
		return nil, err
	}
	transcript, err := wire.MessagesFrom(a.messages)
	if err != nil {
		return nil, err
	}
	run := &loop.Run{
		Session: session, Task: id, Agent: task.GetAgent(), Depth: int(task.GetDepth()),
		System: def.Prompt, ModelName: task.GetModel(), Transcript: transcript,
		Iterations: int(task.GetIterations()), MaxIterations: int(a.GetMaxIterations()),
		MaxPart: int(a.GetMaxPartBytes()),
		Model:   w.Model, Tools: tools, Workspace: w.Workspace, Journal: l, Now: w.Now,
		Logger: w.Logger.With("session_id", session, "task_id", id, "run", task.GetRun(), "epoch", task.GetEpoch()),
	}
	if run.ModelName == "" {
		run.ModelName = def.Model
	}
	for _, c := range a.GetOpenCalls() {
		run.Open = append(run.Open, tree.Call{
			Ref: tree.CallRef{Block: int(c.GetBlock())}, State: tree.CallState(c.GetState()),
		})
	}
	return run, nil
}

func spawnable(a *assignment) []tool.Spawnable {
	var out []tool.Spawnable
	for _, s := range a.GetSpawnable() {
		out = append(out, tool.Spawnable{Name: s.GetName(), WhenToUse: s.GetDescription()})
	}
	return out
}

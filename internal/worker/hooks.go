package worker

import (
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// addHooks gives a sub-agent's run its hooks, if the orchestrator stores what comes
// of them.
func (w *Worker) addHooks(run *loop.Run, a *assignment, definition []hook.Spec) {
	state := a.GetHooks()
	if w.Hooks == nil || state == nil {
		return
	}
	task := a.GetTask()
	bound := w.Hooks.For(hook.Subject{
		Session: task.GetSessionId(), Task: task.GetId(), Parent: task.GetParentId(), Run: int(task.GetRun()),
		Agent: task.GetAgent(), Prompt: promptOf(run.Transcript, int(task.GetRun())), Dir: run.Workspace.Dir(),
		Open: run.Workspace.OpenDir,
	}, definition)
	if bound == nil {
		return
	}
	run.Hooks, run.StartHooksDue, run.HookContinuations = bound, state.GetStart(), int(state.GetWentOn())
}

// promptOf gives what a run was asked to do: the first that it was told.
func promptOf(transcript []tree.Message, run int) string {
	for _, m := range transcript {
		if m.Run == run && m.Role == tree.RoleUser && m.News == (tree.ChildRun{}) {
			return m.Text()
		}
	}
	return ""
}

// StartHooks records what the hooks on the start have come to.
func (j *journal) StartHooks(ran []tree.HookRun) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StartHooks{
		StartHooks: &pb.StartHooks{Ran: wire.HookReports(ran)},
	}})
}

// StopHooks ends the run, unless the hooks on its stop object.
func (j *journal) StopHooks(answer *tree.Message, ran []tree.HookRun, left string) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StopHooks{
		StopHooks: &pb.StopHooks{Answer: wire.Message(answer), Ran: wire.HookReports(ran), Left: left},
	}})
}

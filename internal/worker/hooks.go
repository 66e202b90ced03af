package worker

import (
	"cmp"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// addHooks adds the hooks to a sub-agent's run, if the orchestrator stores their results.
func (w *Worker) addHooks(run *loop.Run, a *assignment, definition []hook.Spec) {
	state := a.GetHooks()
	if w.Hooks == nil || state == nil {
		return
	}
	task := a.GetTask()
	bound := w.Hooks.For(hook.Subject{
		Session: task.GetSessionId(), Task: task.GetId(), Parent: task.GetParentId(), Run: int(task.GetRun()),
		Agent: task.GetAgent(), Prompt: cmp.Or(state.GetPrompt(), promptOf(run.Transcript, task)), Dir: run.Workspace.Dir(),
		Open: run.Workspace.OpenDir,
	}, definition)
	if bound == nil {
		return
	}
	run.Hooks, run.StartHooksDue, run.HookContinuations = bound, state.GetStart(), int(state.GetWentOn())
}

// promptOf returns the first user message of a task's run. A fork sees its parent's messages as well,
// whose runs have numbers of their own.
func promptOf(transcript []tree.Message, task *pb.Task) string {
	for _, m := range transcript {
		inherited := m.Ordinal <= int(task.GetBase().GetOrdinal())
		if m.Run == int(task.GetRun()) && !inherited && m.Role == tree.RoleUser && m.News == (tree.ChildRun{}) {
			return m.Text()
		}
	}
	return ""
}

// StartHooks records the results of the start hooks.
func (j *journal) StartHooks(ran []tree.HookRun) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StartHooks{
		StartHooks: &pb.StartHooks{Ran: wire.HookReports(ran)},
	}})
}

// StopHooks ends the run, unless a stop hook objects.
func (j *journal) StopHooks(answer *tree.Message, ran []tree.HookRun, left string) loop.Pending {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StopHooks{
		StopHooks: &pb.StopHooks{Answer: wire.Message(answer), Ran: wire.HookReports(ran), Left: left},
	}})
}

package loop

import (
	"context"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// setSource notes that the run acts for an outside party from now on.
func (r *runner) setSource(source string) {
	if source != "" && r.Source == "" {
		r.Source = source
		r.specs = nil
		r.enableTools()
	}
}

// question is a call that needs an approval.
type question struct {
	call    tree.Call
	pending Pending
}

// judge decides on a call and reports whether it may run now. It closes a call that is denied, and
// asks for an approval where one is needed. Nobody is asked about a call that its tool would refuse
// for its input: the model is told at once.
func (w *batch) judge(c tree.Call, use tree.ToolUse) (run bool) {
	if w.internalTools[use.Name] {
		w.closeCall(c.Ref.Block, refusalResult(tree.ErrInternalTool, "the run is on behalf of "+w.Source))
		return false
	}
	t := w.tools[use.Name]
	if t == nil || c.State == tree.CallApproved {
		return true
	}
	call := tool.Call{Input: use.Input, Workspace: w.Workspace, NoBackground: w.NoBackground}
	verdict, argument := tool.Judge(w.layers, t, call)
	switch verdict.Decision {
	case policy.Deny:
		w.denyCall(c.Ref.Block, argument, verdict.Why)
		return false
	case policy.Ask:
		if wrong, refused := tool.Check(t, call); refused {
			w.closeCall(c.Ref.Block, wrong)
			return false
		}
		w.questions = append(w.questions, question{c, w.Journal.Ask(c.Ref.Block, w.clean(argument), w.cleanAll(verdict.Rules))})
		return false
	}
	return true
}

func refusalResult(err *tree.Error, why string) tool.Done {
	return tool.Done{IsError: true, Text: err.With("%s", why).Error()}
}

func (r *runner) cleanAll(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = r.clean(text)
	}
	return out
}

// waitApprovals returns the calls that were approved at once. The others wait, or are closed with
// a denial.
func (w *batch) waitApprovals(ctx context.Context) ([]tree.Call, error) {
	var approved []tree.Call
	for _, q := range w.questions {
		reply, err := q.pending.Wait(ctx)
		switch {
		case err != nil:
			return nil, err
		case reply.Approved:
			approved = append(approved, q.call)
		default:
			w.waiting = true
			w.sent = append(w.sent, q.pending)
		}
	}
	return approved, nil
}

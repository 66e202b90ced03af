package tree

import (
	"cmp"

	"github.com/coppice-run/coppice/internal/policy"
)

// authorize computes what a run may do, from the task's own permissions and the current authority
// of all tasks above it. A root or a branch keeps the authority of its first run.
func (d *decision) authorize(t *Task, a requester) {
	t.Source = cmp.Or(t.Origin, a.source)
	if !a.by.IsZero() {
		t.Source = cmp.Or(t.Source, d.view.task(a.by).Source)
	}
	if t.Parent.IsZero() || t.Depth == 0 && t.Run > 1 {
		return
	}
	var others []policy.Authority
	if !a.by.IsZero() && a.by != t.Parent {
		others = append(others, d.view.task(a.by).Authority)
	}
	t.Authority = policy.ChildAuthority(t.Permissions, a.background, d.view.task(t.Parent).Authority, others...)
}

// inheritAuthority gives a branch the authority of the task that it continues from.
func (t *Task) inheritAuthority(from *Task) {
	t.Permissions, t.Authority, t.Origin = from.Permissions, from.Authority, from.Origin
}

// mayDelegate refuses a child of an agent that the call is not allowed to start.
func (d *decision) mayDelegate(t *Task, call *Call, agent string) error {
	if t.Source != "" {
		return errInternal(t)
	}
	v := judgeTask(t, agent)
	switch {
	case v.Decision == policy.Deny:
		return ErrDenied.With("%s", v.Why)
	case v.Decision == policy.Ask && call.State != CallApproved && !v.Granted(d.session().Grants):
		return ErrApprovalDenied.With("%s asks first", v.Rules[0])
	}
	return nil
}

func judgeTask(t *Task, agent string) policy.Verdict {
	return t.Authority.Judge(policy.Call{Tool: policy.TaskTool, Access: policy.AccessRead, Argument: agent})
}

// errInternal refuses an internal tool to a run that acts for an external source.
func errInternal(t *Task) error {
	return ErrInternalTool.With("the run is on behalf of %s", t.Source)
}

// checkSource refuses an invalid name of an external source.
func checkSource(source string) error {
	if err := checkName("the source", source); err != nil {
		return err
	}
	for _, r := range source {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '-' {
			return ErrBadInput.With("the source %q: expected letters a to z, digits, _ and -", source)
		}
	}
	return nil
}

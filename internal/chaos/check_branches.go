package chaos

import pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"

// checkBranches: a branch that a client was acknowledged exists once, continues from the message
// that the client named, and what was selected last is current.
func (c *checker) checkBranches() {
	for _, r := range c.recordsOf(Branched) {
		b := c.taskHistory(r.Task).branch
		c.require(b.GetDescription() == r.Key, Acknowledged, r.Task, "branch %s was acknowledged at %s, the log has %q", r.Key, r.At, b.GetDescription())
		c.require(b == nil || c.continuesFrom(b, r), Stored, r.Task, "branch %s continues from %v, not from message %d", r.Key, b.GetBase(), r.Ordinal)
		same := 0
		for _, l := range c.hist.order {
			if l.branch.GetDescription() == r.Key {
				same++
			}
		}
		c.require(same <= 1, KeysHold, r.Task, "%d branches were opened for %s", same, r.Key)
	}
	if n := len(c.hist.selected); n > 0 {
		c.require(c.hist.selected[n-1] == c.Session.GetCurrentTaskId(), LogTells, c.hist.selected[n-1],
			"task %s is current, the log says another one", c.Session.GetCurrentTaskId())
	}
	chosen := ""
	for _, r := range c.recordsOf(Selected) {
		chosen = r.Task
	}
	c.require(chosen == "" || chosen == c.Session.GetCurrentTaskId(), Acknowledged, chosen,
		"it was selected, and task %s is current", c.Session.GetCurrentTaskId())
}

// continuesFrom reports whether a branch continues from the message that its record names, or from
// the one before it, if that is the answer for which the client wanted another.
func (c *checker) continuesFrom(b *pb.BranchOpened, r Record) bool {
	base := b.GetBase()
	return base.GetTaskId() == c.root() && (base.GetOrdinal() == r.Ordinal || base.GetOrdinal() == r.Ordinal-1 &&
		c.message(c.root(), r.Ordinal).GetRole() == pb.Role_ROLE_ASSISTANT)
}

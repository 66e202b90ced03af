package chaos

import (
	"slices"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// checkApprovals: a call that asks is decided once, as a client was told, and has no effect
// unless it was allowed.
func (c *checker) checkApprovals() {
	effects, decided := c.effects(), map[string]string{}
	for _, r := range c.recordsOf(Decided) {
		decided[r.Key] = r.State
	}
	for _, l := range c.hist.order {
		for _, a := range l.approvals {
			told, acknowledged := decided[a.id]
			delete(decided, a.id)
			c.require(a.call != callRef{}, AskedFirst, l.id, "approval %s was decided and never asked for", a.id)
			c.require(len(a.states) <= 1, AskedFirst, l.id, "approval %s was decided %d times", a.id, len(a.states))
			c.require(len(a.states) == 1 || !terminal(l.state), Terminal, l.id, "approval %s is open, and the run has ended", a.id)
			stored := len(a.states) > 0 && a.states[0].String() == told
			c.require(stored || !acknowledged, Acknowledged, l.id, "approval %s was acknowledged as %s, the log has %v", a.id, told, a.states)
			allowed := slices.Contains(a.states, pb.ApprovalState_APPROVAL_STATE_ALLOWED)
			c.require(allowed || effects[taskCall{l.id, a.call}] == 0, AskedFirst, l.id, "call %d.%d had its effect, and was not allowed", a.call.message, a.call.block)
		}
	}
	for id, state := range decided {
		c.require(false, Acknowledged, "", "approval %s was acknowledged as %s, and is not in the log", id, state)
	}
}

// checkAsked: where notes need approvals, a note has its effect only if its call has asked, or if
// notes were allowed for the whole session before. Once they were, no call asks any more.
func (c *checker) checkAsked() {
	if !slices.ContainsFunc(c.Records, func(r Record) bool { return r.Kind == Created && r.Asks }) {
		return
	}
	granted := c.hist.granted
	c.require(granted == 0 || len(c.recordsOf(Granting)) > 0, AskedFirst, "", "event %d allowed all notes, and no client has", granted)
	for _, l := range c.hist.order {
		for _, a := range l.approvals {
			c.require(granted == 0 || a.asked < granted, Acknowledged, l.id, "call %d.%d has asked after event %d allowed all notes", a.call.message, a.call.block, granted)
		}
	}
	for at := range c.effects() {
		l := c.taskHistory(at.task)
		asked := slices.ContainsFunc(l.approvals, func(a *approval) bool { return a.call == at.callRef })
		closings := l.closed[at.callRef]
		covered := granted > 0 && (len(closings) == 0 || granted < closings[0].GetSeq())
		c.require(asked || covered, AskedFirst, at.task, "call %d.%d had its effect, and nobody was asked", at.message, at.block)
	}
}

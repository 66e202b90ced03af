package tree

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/coppice-run/coppice/internal/policy"
)

// carefulAgent may give no tasks to one called y, and takes its questions to the
// session.
func carefulAgent() *Agent {
	deny, err := policy.ParseRules([]string{"task(y)", "bash(rm *)"})
	if err != nil {
		panic(err)
	}
	own := policy.Permissions{Layer: policy.Layer{Deny: deny}, Background: []string{"read", "task"}, Approvals: policy.ApprovalsEscalate}
	return &Agent{Name: "careful", Version: "1", Mode: ModeBoth, Permissions: own.Pin()}
}

func (h *history) source() string {
	if h.often(95) {
		return ""
	}
	return "mcp"
}

func (h *history) asksWhether(f From) Command {
	a := Ask{From: f, Block: h.block(f), Argument: "x", Rules: []string{fmt.Sprintf("bash(%d)", h.rng.IntN(3))}}
	if h.often(3) {
		a.Rules = nil
	}
	return a
}

func (h *history) askedBefore(f From) *int {
	if h.often(50) {
		return nil
	}
	block := h.block(f)
	return &block
}

func byApproval(rows map[ApprovalID]Approval) []ApprovalID {
	return slices.SortedFunc(maps.Keys(rows), func(a, b ApprovalID) int { return bytes.Compare(a[:], b[:]) })
}

// decision draws an answer to any approval, open or not.
func (h *history) decision() Command {
	c := DecideApproval{ID: ApprovalID{1}, Allow: h.often(60), Message: "m"}
	c.ForSession = h.often(20)
	if ids := byApproval(h.db.approvals); len(ids) > 0 && h.often(97) {
		c.ID = oneOf(h, ids)
	}
	return c
}

// deciding answers approvals that are open: some of them, or all.
func (h *history) deciding(all bool) []Command {
	var cmds []Command
	for _, id := range byApproval(h.db.approvals) {
		if h.db.approvals[id].State == ApprovalOpen && (all || h.often(50)) {
			cmds = append(cmds, DecideApproval{ID: id, Allow: h.often(50)})
		}
	}
	return cmds
}

// authority: what a task may do is within what its parent might when it was given: a run
// keeps what it began with, though its parent may be resumed with less.
func (c *checker) authority(t *Task) {
	above, given := t.Parent, c.startedAt(t)
	if above.IsZero() {
		above, given = t.Base.Task, c.openedAt(t) // a branch
	}
	if above.IsZero() || t.Run == 0 {
		return
	}
	parent := c.tasks[above]
	if c.startedAt(&parent) > given {
		return
	}
	c.must(t.Authority.Within(parent.Authority), "task %s may do %s, its parent %s", t.ID, t.Authority, parent.Authority)
}

// startedAt gives the number of the event with which a task's run began.
func (c *checker) startedAt(t *Task) (seq int64) {
	for _, e := range c.events {
		if _, started := e.Kind.(Started); started && e.Task == t.ID && e.Run == t.Run {
			seq = e.Seq
		}
	}
	return seq
}

// openedAt gives the number of the event with which a branch began.
func (c *checker) openedAt(t *Task) (seq int64) {
	for _, e := range c.events {
		if _, opened := e.Kind.(BranchOpened); opened && e.Task == t.ID {
			seq = e.Seq
		}
	}
	return seq
}

// approvalsOf: each approval was asked for once and decided as often as its state says, and
// nothing asks that is granted.
func (c *checker) approvalsOf() {
	requested, decided := map[ApprovalID]int{}, map[ApprovalID]int{}
	for _, e := range c.events {
		switch k := e.Kind.(type) {
		case ApprovalRequested:
			requested[k.Approval]++
		case ApprovalDecision:
			decided[k.Approval]++
			c.must(c.approvals[k.Approval].State == k.State, "event %d and approval %s differ", e.Seq, k.Approval)
		case ApprovalLapsed:
			decided[k.Approval]++
			c.must(c.approvals[k.Approval].State == ApprovalExpired, "event %d and approval %s differ", e.Seq, k.Approval)
		}
	}
	for id, a := range c.approvals {
		want := 1
		if a.State == ApprovalOpen {
			want = 0
		}
		c.must(requested[id] == 1 && decided[id] == want, "approval %s was asked for %d times and decided %d times", id, requested[id], decided[id])
		call := c.calls[CallKey{a.Task, a.Ref}]
		c.must(a.State != ApprovalOpen || !a.grantedBy(c.session.Grants), "approval %s is open, and granted", id)
		c.must(call.Approval == id && (call.State == CallAsking) == (a.State == ApprovalOpen), "approval %s and its call differ", id)
	}
}

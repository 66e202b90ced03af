package tree

// approvals: every call that asks has one open approval and every open approval has such a call;
// both are counted; and a parked run has no call that may run.
func (e *examination) approvals() {
	const rule = "a call that asks has an open approval"
	open := map[ApprovalID]*Approval{}
	for i := range e.rows.Approvals {
		open[e.rows.Approvals[i].ID] = &e.rows.Approvals[i]
	}
	asking := map[TaskID]int{}
	for i := range e.rows.OpenCalls {
		c := &e.rows.OpenCalls[i]
		t := e.tasks[c.Task]
		e.must(c.State != CallApproved || t != nil && t.State != StateWaiting, c.Task,
			"an approved call wakes its run", "call %v", c.Ref)
		if c.State != CallAsking {
			continue
		}
		asking[c.Task]++
		a := open[c.Approval]
		e.must(a != nil && a.Task == c.Task && a.Ref == c.Ref, c.Task, rule, "call %v asks in approval %s", c.Ref, c.Approval)
		delete(open, c.Approval)
	}
	for id, a := range open {
		e.must(false, a.Task, rule, "approval %s belongs to no call", id)
	}
	total := 0
	for i := range e.rows.Tasks {
		t := &e.rows.Tasks[i]
		total += asking[t.ID]
		e.must(t.Asking == asking[t.ID], t.ID, "open approvals are counted", "the task counts %d, there are %d", t.Asking, asking[t.ID])
	}
	e.must(e.rows.Session.Asking == total, TaskID{}, "open approvals are counted", "the session counts %d, there are %d", e.rows.Session.Asking, total)
}

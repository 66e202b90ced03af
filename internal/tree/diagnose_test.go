package tree

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// rows gives everything that is stored, as Diagnose wants it.
func (db *database) rows() *SessionRows {
	r := &SessionRows{
		Session: *db.session, Tasks: slices.Collect(maps.Values(db.tasks)), Ready: slices.Collect(maps.Values(db.ready)),
		Attempts: slices.Collect(maps.Values(db.attempts)), Inbox: slices.Collect(maps.Values(db.inbox)),
		Runs: slices.Collect(maps.Values(db.runs)), Callbacks: slices.Collect(maps.Values(db.callbacks)),
	}
	for _, a := range db.approvals {
		if a.State == ApprovalOpen {
			r.Approvals = append(r.Approvals, a)
		}
	}
	for _, c := range db.calls {
		if c.State != CallClosed {
			r.OpenCalls = append(r.OpenCalls, c)
		}
	}
	for _, e := range db.events {
		r.Events = append(r.Events, headOf(&e))
	}
	return r
}

// offerInstead puts a ready row in the place of an attempt.
func (r *SessionRows) offerInstead(id TaskID) {
	r.Attempts = slices.Delete(r.Attempts, attemptOf(r, id), attemptOf(r, id)+1)
	r.Ready = append(r.Ready, Ready{Task: id, Epoch: 1})
}

func attemptOf(r *SessionRows, id TaskID) int {
	return slices.IndexFunc(r.Attempts, func(a Attempt) bool { return a.Task == id })
}

// TestDiagnoseFindsDamage breaks the rows of a sound session in every way that
// there is a rule for; each has to be found.
func TestDiagnoseFindsDamage(t *testing.T) {
	t.Parallel()
	session := func() *SessionRows {
		db := newDatabase()
		took := func(cmd Command) {
			t.Helper()
			if d, err := db.commit(cmd); err != nil || d[0].Err != nil {
				t.Fatalf("%T: %v, %v", cmd, d, err)
			}
		}
		agent := &Agent{Name: "a", Mode: ModeBoth}
		took(CreateSession{ID: SessionID{1}, Agent: agent, Limits: DefaultLimits(), Message: []Block{Text{Text: "go"}}, Pin: ModelPin{"p", "m"}})
		root := db.session.Root
		token := Token{Epoch: 1, Nonce: 7}
		took(Claim{Task: root, Token: token, Worker: "w"})
		took(AppendAnswer{From: From{root, token, 1, 1}, Message: Message{Usage: Usage{Input: 3}, Blocks: []Block{
			ToolUse{Name: "task"}, ToolUse{Name: "task"}, ToolUse{Name: "task"}, ToolUse{Name: "bash"},
		}}})
		child := Child{Agent: agent, AgentName: "a", Prompt: "look"}
		took(SpawnCalls{From: From{root, token, 1, 2}, Children: []CallChild{
			{Block: 0, Child: child}, {Block: 1, Child: child, Background: true}, {Block: 2, Child: child},
			{Block: 3, Shell: &Shell{Line: "serve", Nonce: 9}},
		}})
		took(Park{From: From{root, token, 1, 3}})
		for task, r := range db.ready {
			if r.Priority == 0 {
				took(Claim{Task: task, Token: Token{Epoch: 1, Nonce: 8}, Worker: "w"})
				break
			}
		}
		for task := range db.attempts {
			if t := db.tasks[task]; t.Kind == KindShell {
				continue
			}
			took(End{From: From{task, Token{Epoch: 1, Nonce: 8}, 1, 1}, Answer: &Message{Blocks: []Block{Text{Text: "seen"}}}})
		}
		took(Send{Message: []Block{Text{Text: "and?"}}})
		took(CreateBranch{At: db.messages[root][0], Agent: agent, Select: true})
		return db.rows()
	}
	if found := Diagnose(session()); len(found) > 0 {
		t.Fatalf("a sound session: %+v", found)
	}
	pick := func(rows *SessionRows, is func(*Task) bool) *Task {
		return &rows.Tasks[slices.IndexFunc(rows.Tasks, func(t Task) bool { return is(&t) })]
	}
	root := func(r *SessionRows) *Task { return pick(r, func(t *Task) bool { return t.Branch == BranchMain }) }
	branch := func(r *SessionRows) *Task { return pick(r, func(t *Task) bool { return t.Branch == BranchHuman }) }
	ended := func(r *SessionRows) *Task { return pick(r, func(t *Task) bool { return t.State == StateCompleted }) }
	pending := func(r *SessionRows) *Task { return pick(r, func(t *Task) bool { return t.State == StatePending }) }
	shell := func(r *SessionRows) *Task { return pick(r, func(t *Task) bool { return t.Kind == KindShell }) }
	for name, damage := range map[string]func(*SessionRows){
		"a command again": func(r *SessionRows) { shell(r).Epoch = 2; r.Attempts[attemptOf(r, shell(r).ID)].Epoch = 2 },
		"a command offered": func(r *SessionRows) {
			shell(r).State = StatePending
			r.Session.Shells--
			r.Session.Pending++
			r.offerInstead(shell(r).ID)
		},
		"a command counted as run": func(r *SessionRows) { r.Session.Shells--; r.Session.Running++ },
		"a command spoken to":      func(r *SessionRows) { shell(r).Inbox = 1; r.Inbox = append(r.Inbox, InboxEntry{Task: shell(r).ID}) },
		"a command that answers":   func(r *SessionRows) { shell(r).Answer = 1 },
		"an agent that prints":     func(r *SessionRows) { root(r).Output = "x" },
		"a release left over":      func(r *SessionRows) { root(r).Release = 2 },
		"a task lost":              func(r *SessionRows) { r.Tasks = r.Tasks[1:] },
		"a count wrong":            func(r *SessionRows) { r.Session.Waiting++ },
		"usage counted twice":      func(r *SessionRows) { r.Session.Usage.Input *= 2 },
		"a cap passed":             func(r *SessionRows) { r.Session.Limits.Total = 2 },
		"two roots":                func(r *SessionRows) { pending(r).Parent = TaskID{} },
		"a branch below a task":    func(r *SessionRows) { branch(r).Parent = root(r).ID },
		"a base lost":              func(r *SessionRows) { branch(r).Base = Base{} },
		"a base that is not there": func(r *SessionRows) { branch(r).Base.Message = 9 },
		"a base of nobody":         func(r *SessionRows) { branch(r).Base.Task = TaskID{7} },
		"a summary not there":      func(r *SessionRows) { root(r).Compacted = 9 },
		"messages to a child":      func(r *SessionRows) { r.Session.Current = ended(r).ID },
		"a depth wrong":            func(r *SessionRows) { pending(r).Depth = 3 },
		"a child not counted":      func(r *SessionRows) { root(r).Children-- },
		"half a model":             func(r *SessionRows) { pending(r).Pin.Provider = "" },
		"background not counted":   func(r *SessionRows) { root(r).LiveBackground++ },
		"never offered":            func(r *SessionRows) { r.Ready = r.Ready[1:] },
		"offered twice":            func(r *SessionRows) { r.Ready = append(r.Ready, Ready{Task: ended(r).ID, Epoch: 2}) },
		"offered under another":    func(r *SessionRows) { r.Ready[0].Epoch++ },
		"an attempt of nobody": func(r *SessionRows) {
			r.Attempts = append(r.Attempts, Attempt{Task: root(r).ID, Epoch: 1, At: time.Now()})
		},
		"a running one let go":      func(r *SessionRows) { pending(r).State = StateRunning },
		"a call waits in vain":      func(r *SessionRows) { r.OpenCalls[0].Child.Task = ended(r).ID },
		"a call lost":               func(r *SessionRows) { r.OpenCalls = nil },
		"a message lost":            func(r *SessionRows) { r.Inbox = nil },
		"a wake lost":               func(r *SessionRows) { root(r).OpenCalls, r.OpenCalls = 0, nil },
		"an event lost":             func(r *SessionRows) { r.Events = slices.Delete(r.Events, 4, 5) },
		"an event twice":            func(r *SessionRows) { r.Events = append(r.Events, r.Events[len(r.Events)-1]) },
		"the last event lost":       func(r *SessionRows) { r.Events = r.Events[:len(r.Events)-1] },
		"an outcome lost":           func(r *SessionRows) { r.Runs = nil },
		"a run ended in silence":    func(r *SessionRows) { pending(r).Run++ },
		"an event after the end":    func(r *SessionRows) { e := &r.Events[len(r.Events)-1]; e.Task, e.Run = ended(r).ID, 1 },
		"a second start of a run":   func(r *SessionRows) { e := &r.Events[len(r.Events)-1]; e.Task, e.Run, e.Started = root(r).ID, 1, true },
		"a stop put off for ever":   func(r *SessionRows) { ended(r).StopHooked = MaxStopHooks + 1 },
		"a hook of the root":        func(r *SessionRows) { root(r).StartHooked = true },
		"a callback before the end": func(r *SessionRows) { r.Callbacks = append(r.Callbacks, Callback{Task: pending(r).ID, Run: 1}) },
	} {
		rows := session()
		damage(rows)
		if len(Diagnose(rows)) == 0 {
			t.Errorf("%s: nothing was found", name)
		}
	}
}

// headOf gives the head of an event.
func headOf(e *Event) EventHead {
	h := EventHead{Seq: e.Seq, Task: e.Task, Run: e.Run}
	switch e.Kind.(type) {
	case Started:
		h.Started = true
	case Result:
		h.Result = true
	}
	return h
}

package tree

import (
	"fmt"
	"maps"
	"testing"
)

// BenchmarkDecide measures a command on a fresh view: naming its rows, copying
// them in and deciding. Nothing is written.
func BenchmarkDecide(b *testing.B) {
	db := newDatabase()
	must := func(cmds ...Command) []decided {
		b.Helper()
		all, err := db.commit(cmds...)
		for _, one := range all {
			if one.Err != nil {
				b.Fatal(one.Err)
			}
		}
		if err != nil {
			b.Fatal(err)
		}
		return all
	}
	root := must(CreateSession{ID: SessionID{1}, Agent: boss, Message: texts([]string{"Go."}), Limits: DefaultLimits()})[0].Answer.(Created).Root
	from := func() From {
		t := db.tasks[root]
		return From{Task: root, Token: t.Token(), Attach: t.Attach, Seq: t.LastSeq + 1}
	}
	asks := said([]string{"Let me see."}, []string{"read", "task"})
	answer := said([]string{"Done."}, nil)
	decide := func(name string, cmd Command) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v := db.view()
				db.load(v, cmd)
				if _, err := Decide(v, db.env(), cmd); err != nil {
					b.Fatal(err)
				}
			}
		})
	}

	claim := Claim{Task: root, Token: Token{1, 1}, Worker: "w"}
	decide("claim", claim)
	must(claim)
	decide("append", AppendAnswer{From: from(), Message: asks})
	decide("end", End{From: from(), Answer: &answer})
	must(AppendAnswer{From: from(), Message: asks})
	decide("close", CloseCall{From: from(), Block: 1, Text: "package tree"})
	must(CloseCall{From: from(), Block: 1, Text: "package tree"})
	decide("close-last", CloseCall{From: from(), Block: 2, Text: "package tree"})
	must(CloseCall{From: from(), Block: 2, Text: "package tree"})
	for _, n := range []int{1, 10, 100} {
		message, wanted := manyChildren(n)
		must(AppendAnswer{From: from(), Message: message})
		decide(fmt.Sprintf("spawn-%d", n), SpawnCalls{From: from(), Children: wanted})
		for i := range n {
			must(CloseCall{From: from(), Block: i})
		}
	}

	// A run whose time is up ends with all that it waits for; below those others have ended.
	const children, below = 1000, 10
	message, wanted := manyChildren(children)
	must(AppendAnswer{From: from(), Message: message})
	must(SpawnCalls{From: from(), Children: wanted})
	for id, t := range maps.Clone(db.tasks) {
		if t.Parent != root || t.State.Terminal() {
			continue
		}
		for range below {
			ended := Task{Session: t.Session, ID: TaskID(db.env().NewID()), Parent: id, Depth: 2, CurrentRun: CurrentRun{State: StateCompleted}}
			db.tasks[ended.ID] = ended
		}
	}
	late := db.tasks[root]
	late.Deadline = began
	db.tasks[root] = late
	decide(fmt.Sprintf("fall-%d", children), Expire{Task: root, Ref: deadlineRef})
}

// manyChildren is a message that asks for n children.
func manyChildren(n int) (Message, []CallChild) {
	var tools []string
	var children []CallChild
	for i := range n {
		tools = append(tools, "task")
		children = append(children, CallChild{Block: i, Child: Child{Agent: scout, Prompt: "look", Description: "a look"}})
	}
	return said(nil, tools), children
}

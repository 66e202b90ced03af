package store

import "github.com/coppice-run/coppice/internal/tree"

// asked remembers what runs were asked that have begun with a commit of this process, until
// they end, so that who waits for one is told of it without a look. Messages never change.
// Only the committer looks at it.
type asked struct {
	messages map[inSession[tree.ChildRun]]messageAndBody
	bytes    int
}

// forgetAskedAbove is how many bytes of messages a committer remembers before all of them
// are forgotten. A message counts for rowBytes beside its text.
const forgetAskedAbove = 2 << 20

func newAsked() asked { return asked{messages: map[inSession[tree.ChildRun]]messageAndBody{}} }

// keep takes in what runs were asked that begin with changes of a session.
func (a *asked) keep(id tree.SessionID, v *tree.View) {
	for _, m := range v.Changes().Messages {
		key := inSession[tree.ChildRun]{id, tree.ChildRun{Task: m.Task, Run: m.Run}}
		_, asked := a.messages[key]
		if m.Role != tree.RoleUser || !m.News.Task.IsZero() || asked {
			continue
		}
		if t := v.Stored(m.Task); t != nil && t.Run >= m.Run {
			continue // the run was there before
		}
		row := remembered(id, m)
		a.messages[key] = row
		if a.bytes += row.size(); a.bytes > forgetAskedAbove {
			clear(a.messages)
			a.bytes = 0
		}
	}
}

// take gives what a run was asked, for the last time; nothing if that is not remembered.
func (a *asked) take(id tree.SessionID, run tree.ChildRun) (messages []messageAndBody) {
	key := inSession[tree.ChildRun]{id, run}
	if m, any := a.messages[key]; any {
		a.bytes -= m.size()
		delete(a.messages, key)
		messages = append(messages, m)
	}
	return messages
}

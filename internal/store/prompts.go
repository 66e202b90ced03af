package store

import "github.com/coppice-run/coppice/internal/tree"

// prompts remembers what runs were asked that have begun with a commit of this process, until
// they end, so that who waits for one is told of it without a look. Messages never change.
// Only the committer looks at it.
type prompts struct {
	messages map[inSession[tree.ChildRun]]messageAndBody
	bytes    int
}

// forgetPromptsAbove is how many bytes of messages a committer remembers before all of them
// are forgotten. A message counts for rowBytes beside its text.
const forgetPromptsAbove = 2 << 20

func newPrompts() prompts { return prompts{messages: map[inSession[tree.ChildRun]]messageAndBody{}} }

// keep takes in what runs were asked that begin with changes of a session.
func (p *prompts) keep(id tree.SessionID, v *tree.View) {
	for _, m := range v.Changes().Messages {
		key := inSession[tree.ChildRun]{id, tree.ChildRun{Task: m.Task, Run: m.Run}}
		_, asked := p.messages[key]
		if m.Role != tree.RoleUser || !m.News.Task.IsZero() || asked {
			continue
		}
		if t := v.Stored(m.Task); t != nil && t.Run >= m.Run {
			continue // the run was there before
		}
		row := remembered(id, m)
		p.messages[key] = row
		if p.bytes += row.size(); p.bytes > forgetPromptsAbove {
			clear(p.messages)
			p.bytes = 0
		}
	}
}

// take gives what a run was asked, for the last time; nothing if that is not remembered.
func (p *prompts) take(id tree.SessionID, run tree.ChildRun) (messages []messageAndBody) {
	key := inSession[tree.ChildRun]{id, run}
	if m, any := p.messages[key]; any {
		p.bytes -= m.size()
		delete(p.messages, key)
		messages = append(messages, m)
	}
	return messages
}

package store

import "github.com/coppice-run/coppice/internal/tree"

// promptCache remembers what runs were asked that have begun with a commit of this process, until
// they end, so that who waits for one is told of it without a look. Messages never change.
// Only the committer looks at it.
type promptCache struct {
	messages map[sessionKey[tree.ChildRun]]messageAndBody
	bytes    int
}

// maxPromptBytes is how many bytes of messages a committer remembers before all of them
// are forgotten. A message counts for rowBytes beside its text.
const maxPromptBytes = 2 << 20

func newPromptCache() promptCache {
	return promptCache{messages: map[sessionKey[tree.ChildRun]]messageAndBody{}}
}

// put takes in what runs were asked that begin with changes of a session.
func (p *promptCache) put(id tree.SessionID, v *tree.View) {
	for _, m := range v.Changes().Messages {
		key := sessionKey[tree.ChildRun]{id, tree.ChildRun{Task: m.Task, Run: m.Run}}
		_, asked := p.messages[key]
		if m.Role != tree.RoleUser || !m.News.Task.IsZero() || asked {
			continue
		}
		if t := v.StoredTask(m.Task); t != nil && t.Run >= m.Run {
			continue // the run was there before
		}
		row := cachedMessage(id, m)
		p.messages[key] = row
		if p.bytes += row.size(); p.bytes > maxPromptBytes {
			clear(p.messages)
			p.bytes = 0
		}
	}
}

// take gives what a run was asked, for the last time; nothing if that is not remembered.
func (p *promptCache) take(id tree.SessionID, run tree.ChildRun) (messages []messageAndBody) {
	key := sessionKey[tree.ChildRun]{id, run}
	if m, any := p.messages[key]; any {
		p.bytes -= m.size()
		delete(p.messages, key)
		messages = append(messages, m)
	}
	return messages
}

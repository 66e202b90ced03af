package store

import "github.com/coppice-run/coppice/internal/tree"

// promptCache caches the prompts of runs that have started with a commit of this process, until
// they end, so that callers that wait for a run get them without a read. Messages never change.
// Only the committer uses it.
type promptCache struct {
	messages map[sessionKey[tree.ChildRun]]messageAndBody
	bytes    int
}

// maxPromptBytes is the size of cached messages above which a committer empties the cache. Each
// message counts with cachedRowBytes in addition to its text.
const maxPromptBytes = 2 << 20

func newPromptCache() promptCache {
	return promptCache{messages: map[sessionKey[tree.ChildRun]]messageAndBody{}}
}

// put takes in the prompts of the runs that start with the changes of a session.
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
		p.bytes += row.size()
	}
	// Only now, or a run's second message would look like its first.
	if p.bytes > maxPromptBytes {
		clear(p.messages)
		p.bytes = 0
	}
}

// take removes and gives the prompt of a run; empty if it is not cached.
func (p *promptCache) take(id tree.SessionID, run tree.ChildRun) (messages []messageAndBody) {
	key := sessionKey[tree.ChildRun]{id, run}
	if m, any := p.messages[key]; any {
		p.bytes -= m.size()
		delete(p.messages, key)
		messages = append(messages, m)
	}
	return messages
}

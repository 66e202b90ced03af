package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// tailCache caches the last messages of transcripts that this process has written, so that a parent
// that wakes need not be read: its answer and the ends of its children were committed here a moment
// before. A tail begins with a message that makes calls, or with one that follows the messages in
// Store.held. Messages never change; the task's row tells whether the tail is complete. Only the
// committer uses it.
type tailCache struct {
	tails map[sessionKey[tree.TaskID]]*transcriptTail
	bytes int
}

// transcriptTail is the end of a transcript. It does not begin with results, because some of those
// may have been stored before the tail began.
type transcriptTail struct {
	rows       []messageAndBody
	callCounts map[int]int // calls of each message
	calls      map[tree.CallRef]*tree.Call
	near       outcomeCache
	bytes      int
}

// maxTailBytes is the size of cached messages and results above which a committer empties the
// cache. That is enough for 15,000 children with short answers, each of which would otherwise be
// three rows to read.
const maxTailBytes = 8 << 20

func newTailCache() tailCache { return tailCache{tails: map[sessionKey[tree.TaskID]]*transcriptTail{}} }

// put takes in what was just committed for a session.
func (w *tailCache) put(id tree.SessionID, c *tree.Changes, held *transcript.Cache) {
	for _, m := range c.Messages {
		key := sessionKey[tree.TaskID]{id, m.Task}
		t := w.tails[key]
		switch {
		case t == nil && (m.MakesCalls() || m.Role != tree.RoleTool && follows(held.Get(transcript.Key{Session: id, Task: m.Task}), m.Ordinal)):
			t = &transcriptTail{callCounts: map[int]int{}, calls: map[tree.CallRef]*tree.Call{}, near: outcomeCache{
				task: m.Task, runs: map[tree.ChildRun]*tree.Run{}, answers: map[messageKey]string{},
			}}
			w.tails[key] = t
		case t == nil:
			continue
		case t.last() != m.Ordinal-1:
			w.forget(key)
			continue
		}
		w.grow(t, t.add(cachedMessage(id, m)))
	}
	if len(w.tails) > 0 {
		w.putCalls(id, c)
	}
	for task, t := range c.Tasks {
		if t.State.Terminal() && t.Depth > 0 {
			w.forget(sessionKey[tree.TaskID]{id, task})
		}
	}
	if w.bytes > maxTailBytes {
		clear(w.tails)
		w.bytes = 0
	}
}

// putCalls takes in the closed calls, with the outcomes that have closed them.
func (w *tailCache) putCalls(id tree.SessionID, c *tree.Changes) {
	answers := map[messageKey]*tree.Message{}
	for _, m := range c.Messages {
		if m.Role == tree.RoleAssistant {
			answers[messageKey{m.Task, m.Ordinal}] = m
		}
	}
	runs := make(map[tree.ChildRun]*tree.Run, len(c.Runs))
	for _, r := range c.Runs {
		runs[tree.ChildRun{Task: r.Task, Run: r.Run}] = r
	}
	for _, call := range c.Calls {
		t := w.tails[sessionKey[tree.TaskID]{id, call.Task}]
		if t == nil || call.State != tree.CallClosed {
			continue
		}
		t.calls[call.Ref] = call
		w.grow(t, cachedRowBytes+len(call.Text))
		run := runs[call.Child]
		if !call.ByOutcome || run == nil {
			continue // what is missing is read
		}
		t.near.runs[call.Child] = run
		key := messageKey{run.Task, run.Answer}
		if m := answers[key]; m != nil {
			text := m.Text()
			t.near.answers[key] = text
			w.grow(t, len(text))
		}
	}
}

func (w *tailCache) grow(t *transcriptTail, bytes int) {
	t.bytes += bytes
	w.bytes += bytes
}

func (w *tailCache) forget(key sessionKey[tree.TaskID]) {
	if t := w.tails[key]; t != nil {
		w.bytes -= t.bytes
		delete(w.tails, key)
	}
}

// has reports whether there is a tail of a task.
func (w *tailCache) has(id tree.SessionID, task tree.TaskID) bool {
	return w.tails[sessionKey[tree.TaskID]{id, task}] != nil
}

// take removes and gives the tail of a task's transcript; nil if it does not reach to the end.
func (w *tailCache) take(t *tree.Task) *transcriptTail {
	key := sessionKey[tree.TaskID]{t.Session, t.ID}
	found := w.tails[key]
	w.forget(key)
	if found == nil || found.last() != t.NextOrdinal-1 || t.OpenCalls > 0 || t.Base.Inherits() {
		return nil
	}
	for ref := range found.calls {
		found.callCounts[ref.Message]--
	}
	for _, left := range found.callCounts {
		if left > 0 {
			return nil // another replica has closed them
		}
	}
	return found
}

// follows reports whether a message comes right after the held ones.
func follows(held []tree.Message, ordinal int) bool {
	return len(held) > 0 && held[len(held)-1].Ordinal == ordinal-1
}

func (t *transcriptTail) last() int { return t.rows[len(t.rows)-1].Ordinal }

// add appends a message and gives its size.
func (t *transcriptTail) add(row messageAndBody) int {
	for _, b := range row.Blocks {
		if _, call := b.(tree.ToolUse); call {
			t.callCounts[row.Ordinal]++
		}
	}
	t.rows = append(t.rows, row)
	return row.size()
}

// wokenRun gives a claimed run with the tail of its conversation; nil if the batch does not have
// all of that.
func (b *batch) wokenRun(claimed *tree.Claimed) *wokenRun {
	if claimed == nil {
		return nil
	}
	tail, agents := b.tails.take(&claimed.Task), b.agents[claimed.Tenant]
	if tail == nil || agents == nil || b.resultsMissing {
		return nil
	}
	return &wokenRun{
		task: claimed.Task, tail: tail, shown: b.sessions[claimed.Task.Session].view.Session().Limits.Output(), agents: *agents,
	}
}

// wokenRun is a run that was claimed again, such as after a wait, with the cached tail of its
// conversation.
type wokenRun struct {
	task   tree.Task
	tail   *transcriptTail
	shown  int
	agents []AgentVersion
}

// conversation joins the held or else stored beginning of a transcript with the tail; nil if there
// is a gap between them.
func (w *wokenRun) conversation(ctx context.Context, s *Store) (*Conversation, error) {
	t := &w.task
	whose := transcript.Key{Session: t.Session, Task: t.ID}
	r, first := s.session(t.Session), w.tail.rows[0].Ordinal
	seen := s.held.Get(whose)
	if !follows(seen, first) {
		var err error
		if seen, err = r.transcript(ctx, t.ID, 0, first-1); err != nil || !follows(seen, first) {
			return nil, err
		}
	}
	r.outputLimit, r.cache = w.shown, w.tail.near
	for _, c := range w.tail.calls {
		r.cache.calls = append(r.cache.calls, *c)
	}
	slices.SortFunc(r.cache.calls, func(a, b tree.Call) int {
		return cmp.Or(cmp.Compare(a.Ref.Message, b.Ref.Message), cmp.Compare(a.Ref.Block, b.Ref.Block))
	})
	last := &seen[len(seen)-1]
	messages, err := r.assemble(ctx, append([]messageAndBody{cachedMessage(t.Session, last)}, w.tail.rows...), last.Ordinal)
	if err != nil {
		return nil, err
	}
	own := transcript.Link{Task: t.ID, Description: t.Description, Base: t.Base, Messages: s.held.Extend(whose, seen, messages)}
	return &Conversation{Messages: transcript.Conversation([]transcript.Link{own}), Agents: w.agents}, nil
}

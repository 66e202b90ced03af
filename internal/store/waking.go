package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// wakings remembers what this process has written of transcripts, from a message on that
// makes calls or follows on what is held, so that a parent that wakes need not be read: its
// answer and its children's ends went through here a moment before. What is written of a
// transcript never changes; the task's row says whether it is all. Only the committer looks
// at it.
type wakings struct {
	tails map[inSession[tree.TaskID]]*tail
	bytes int
}

// tail is how a transcript goes on. It begins with no results: of those some may have been
// there before anything was remembered.
type tail struct {
	rows  []messageAndBody
	asks  map[int]int // how many calls a message makes
	calls map[tree.CallRef]*tree.Call
	near  near
	bytes int
}

// forgetWakingsAbove is how many bytes of messages and results a committer remembers before
// all of them are forgotten: those of 15,000 children that say little, each of which is three
// rows to read otherwise.
const forgetWakingsAbove = 8 << 20

func newWakings() wakings { return wakings{tails: map[inSession[tree.TaskID]]*tail{}} }

// keep takes in what was just committed for a session.
func (w *wakings) keep(id tree.SessionID, c *tree.Changes, held *transcript.Cache) {
	for _, m := range c.Messages {
		key := inSession[tree.TaskID]{id, m.Task}
		t := w.tails[key]
		switch {
		case t == nil && (m.MakesCalls() || m.Role != tree.RoleTool && follows(held.Get(transcript.Key{Session: id, Task: m.Task}), m.Ordinal)):
			t = &tail{asks: map[int]int{}, calls: map[tree.CallRef]*tree.Call{}, near: near{
				task: m.Task, runs: map[tree.ChildRun]*tree.Run{}, answers: map[messageKey]string{},
			}}
			w.tails[key] = t
		case t == nil:
			continue
		case t.last() != m.Ordinal-1:
			w.forget(key)
			continue
		}
		w.grew(t, t.add(remembered(id, m)))
	}
	if len(w.tails) > 0 {
		w.keepCalls(id, c)
	}
	for task, t := range c.Tasks {
		if t.State.Terminal() && t.Depth > 0 {
			w.forget(inSession[tree.TaskID]{id, task})
		}
	}
	if w.bytes > forgetWakingsAbove {
		clear(w.tails)
		w.bytes = 0
	}
}

// keepCalls takes in the calls that were closed, with the outcomes that have closed them.
func (w *wakings) keepCalls(id tree.SessionID, c *tree.Changes) {
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
		t := w.tails[inSession[tree.TaskID]{id, call.Task}]
		if t == nil || call.State != tree.CallClosed {
			continue
		}
		t.calls[call.Ref] = call
		w.grew(t, rowBytes+len(call.Text))
		run := runs[call.Child]
		if !call.ByOutcome || run == nil {
			continue // what is missing is read
		}
		t.near.runs[call.Child] = run
		key := messageKey{run.Task, run.Answer}
		if m := answers[key]; m != nil {
			text := m.Text()
			t.near.answers[key] = text
			w.grew(t, len(text))
		}
	}
}

func (w *wakings) grew(t *tail, bytes int) {
	t.bytes += bytes
	w.bytes += bytes
}

func (w *wakings) forget(key inSession[tree.TaskID]) {
	if t := w.tails[key]; t != nil {
		w.bytes -= t.bytes
		delete(w.tails, key)
	}
}

// has reports whether something is remembered of a task.
func (w *wakings) has(id tree.SessionID, task tree.TaskID) bool {
	return w.tails[inSession[tree.TaskID]{id, task}] != nil
}

// take gives what is remembered of a task's transcript, for the last time; nil if that is not
// all up to its end.
func (w *wakings) take(t *tree.Task) *tail {
	key := inSession[tree.TaskID]{t.Session, t.ID}
	found := w.tails[key]
	w.forget(key)
	if found == nil || found.last() != t.NextOrdinal-1 || t.OpenCalls > 0 || t.Base.Inherits() {
		return nil
	}
	for ref := range found.calls {
		found.asks[ref.Message]--
	}
	for _, left := range found.asks {
		if left > 0 {
			return nil // another replica has closed them
		}
	}
	return found
}

// follows reports whether a message comes right after those that are held.
func follows(held []tree.Message, ordinal int) bool {
	return len(held) > 0 && held[len(held)-1].Ordinal == ordinal-1
}

func (t *tail) last() int { return t.rows[len(t.rows)-1].Ordinal }

// add appends a message, and gives how much that is.
func (t *tail) add(row messageAndBody) int {
	for _, b := range row.Blocks {
		if _, call := b.(tree.ToolUse); call {
			t.asks[row.Ordinal]++
		}
	}
	t.rows = append(t.rows, row)
	return row.size()
}

// woken gives a claimed run with what the batch has at hand of its conversation; nil if
// that is not all.
func (b *batch) woken(claimed *tree.Claimed) *woken {
	if claimed == nil {
		return nil
	}
	tail, agents := b.wakings.take(&claimed.Task), b.agents[claimed.Tenant]
	if tail == nil || agents == nil || b.unread {
		return nil
	}
	return &woken{
		task: claimed.Task, tail: tail, shown: b.sessions[claimed.Task.Session].view.Session().Limits.Output(), agents: *agents,
	}
}

// woken is a run that was claimed, of whose conversation everything is at hand.
type woken struct {
	task   tree.Task
	tail   *tail
	shown  int
	agents []AgentVersion
}

// conversation puts together what is held of a transcript, or else is read, and what follows
// on it; nil if there is something between them.
func (w *woken) conversation(ctx context.Context, s *Store) (*Conversation, error) {
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
	r.shown, r.near = w.shown, w.tail.near
	for _, c := range w.tail.calls {
		r.near.calls = append(r.near.calls, *c)
	}
	slices.SortFunc(r.near.calls, func(a, b tree.Call) int {
		return cmp.Or(cmp.Compare(a.Ref.Message, b.Ref.Message), cmp.Compare(a.Ref.Block, b.Ref.Block))
	})
	last := &seen[len(seen)-1]
	messages, err := r.whole(ctx, append([]messageAndBody{remembered(t.Session, last)}, w.tail.rows...), last.Ordinal)
	if err != nil {
		return nil, err
	}
	own := transcript.Link{Task: t.ID, Description: t.Description, Base: t.Base, Messages: s.held.Extend(whose, seen, messages)}
	return &Conversation{Messages: transcript.Conversation([]transcript.Link{own}), Agents: w.agents}, nil
}

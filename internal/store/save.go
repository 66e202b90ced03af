package store

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// save writes what the views have changed, one statement a table.
func (b *batch) save(ctx context.Context) error {
	rows := map[string][][]any{}
	put := func(query string, row []any) { rows[query] = append(rows[query], row) }
	for _, id := range b.order {
		c := b.views[id].Changes()
		b.collect(id, c, put)
		b.collectQueues(id, c, put)
	}
	for _, key := range b.fresh {
		answer, err := encodeAnswer(b.once[key].answer)
		if err != nil {
			return err
		}
		hash := b.once[key].hash
		put(requestTable.add(), []any{idColumn(&key.session), key.key, hash[:], string(answer)})
	}
	for query, r := range rows {
		if err := b.db.exec(ctx, query, r...); err != nil {
			return err
		}
	}
	return nil
}

// The statements of save, made once.
var (
	putSession  = sessionTable.put()
	putTask     = taskTable.put()
	addRun      = runTable.add()
	addMessage  = messageTable.add()
	putCall     = callTable.put()
	addEvent    = eventTable.add()
	putInbox    = inboxTable.put()
	dropInbox   = inboxTable.drop()
	putWait     = waitTable.put()
	dropWait    = waitTable.drop()
	putTimer    = timerTable.put()
	dropTimer   = timerTable.drop()
	putReady    = readyTable.put()
	dropReady   = readyTable.drop()
	putAttempt  = attemptTable.put()
	dropAttempt = attemptTable.drop()
)

// collect lists the rows of a session's tree and log.
func (b *batch) collect(id tree.SessionID, c *tree.Changes, put func(string, []any)) {
	if c.Session != nil {
		maxRunning := c.Session.Limits.Running
		put(putSession, sessionRow(c.Session, &maxRunning))
	}
	for _, t := range c.Tasks {
		put(putTask, taskRow(t))
	}
	for _, r := range c.Runs {
		put(addRun, runRow(&id, r))
	}
	for _, m := range c.Messages {
		body := wire.EncodeBody(m)
		put(addMessage, messageRow(&id, m, &body))
	}
	for _, call := range c.Calls {
		put(putCall, callRow(&id, call))
	}
	for _, e := range c.Events {
		put(addEvent, []any{idColumn(&id), e.Seq, wire.EncodeEvent(e)})
	}
}

// collectQueues lists the rows of what waits: inbox, waits, timers, ready runs
// and attempts.
func (b *batch) collectQueues(id tree.SessionID, c *tree.Changes, put func(string, []any)) {
	for entry, e := range c.Inbox {
		if e == nil {
			put(dropInbox, []any{idColumn(&id), idColumn(&entry)})
			continue
		}
		body := wire.EncodeBody(&tree.Message{Blocks: e.Blocks})
		put(putInbox, inboxRow(&id, e, &body))
	}
	for row, there := range c.Waits {
		query := dropWait
		if there {
			query = putWait
		}
		put(query, waitRow(&id, &row))
	}
	for key, t := range c.Timers {
		if t == nil {
			put(dropTimer, []any{idColumn(&id), idColumn(&key.Task), key.Ref.Message, key.Ref.Block})
			continue
		}
		put(putTimer, timerRow(&Timer{Session: id, Timer: *t}))
	}
	for _, task := range inOrder(c.Ready) {
		r := c.Ready[task]
		if r == nil {
			put(dropReady, []any{idColumn(&id), idColumn(&task)})
			continue
		}
		row := Ready{Session: id, Ready: *r, fairTag: b.fair.tag(id)}
		b.ready = append(b.ready, row)
		put(putReady, readyRow(&row))
	}
	for task, a := range c.Attempts {
		if a == nil {
			put(dropAttempt, []any{idColumn(&id), idColumn(&task)})
			continue
		}
		put(putAttempt, attemptRow(&Attempt{Session: id, Attempt: *a}))
	}
}

// inOrder gives the tasks of a map by age, so that what was made ready first is
// offered first.
func inOrder[T any](rows map[tree.TaskID]T) []tree.TaskID {
	return slices.SortedFunc(maps.Keys(rows), func(a, b tree.TaskID) int { return bytes.Compare(a[:], b[:]) })
}

package store

import (
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// beginnings remembers how the conversations of tasks begin that this process has written
// and no worker has had yet, so that a claim need not read what was written a moment ago.
// Messages never change: whoever else writes, what is remembered is right, and the task's
// row says whether it is all. Only the committer looks at it.
type beginnings struct {
	messages map[inSession[tree.TaskID]][]tree.Message
	bytes    int
}

// forgetBeginningsAbove is how many bytes of messages a committer remembers before all of
// them are forgotten.
const forgetBeginningsAbove = 2 << 20

func newBeginnings() beginnings {
	return beginnings{messages: map[inSession[tree.TaskID]][]tree.Message{}}
}

// keep takes in the messages that were just committed for a session.
func (b *beginnings) keep(id tree.SessionID, messages []*tree.Message) {
	for _, m := range messages {
		key := inSession[tree.TaskID]{id, m.Task}
		known := b.messages[key]
		if m.Role != tree.RoleUser || !m.News.Task.IsZero() || m.Ordinal != len(known)+1 {
			b.forget(key)
			continue
		}
		if b.bytes += tree.TextBytes(m.Blocks); b.bytes > forgetBeginningsAbove {
			clear(b.messages)
			b.bytes = 0
			continue
		}
		b.messages[key] = append(known, *m)
	}
}

// take gives all messages of a task, if they are remembered, for the last time.
func (b *beginnings) take(t *tree.Task) []tree.Message {
	key := inSession[tree.TaskID]{t.Session, t.ID}
	known := b.messages[key]
	b.forget(key)
	if len(known) != t.NextOrdinal-1 || t.OpenCalls > 0 || t.Base.Inherits() {
		return nil
	}
	return known
}

func (b *beginnings) forget(key inSession[tree.TaskID]) {
	for _, m := range b.messages[key] {
		b.bytes -= tree.TextBytes(m.Blocks)
	}
	delete(b.messages, key)
}

// tenantAgents looks up the agents of the tenants whose runs are claimed, as far as it is
// known whose they are, since a session's tenant never changes; and of those whose sessions
// are to be opened with agents that were read before.
func (b *batch) tenantAgents(queued []*Pending) (lookups []lookup) {
	waiting := b.spare() >= 0
	for _, p := range queued {
		tenant, known := b.tenantOf(p, waiting)
		if p.agents != nil && !b.readsAgents() {
			lookups = append(lookups, b.unchangedAgents(tenant, p.agents)...)
			continue
		}
		if !known || b.agents[tenant] != nil {
			continue
		}
		versions := &[]AgentVersion{}
		b.agents[tenant] = versions
		lookups = append(lookups, all(versions, "tenant_agents", plainVersionRow, tenant))
	}
	return lookups
}

// tenantOf gives the tenant of whom a command may have a run claimed of whose conversation
// everything is remembered, or comes with it: that of what it starts, if slots are waiting. So
// it does of a session that is to be opened with agents that were read before.
func (b *batch) tenantOf(p *Pending, waiting bool) (tenant string, known bool) {
	id, known := b.knowsClaimed(p)
	switch c := p.cmd.(type) {
	case tree.CreateSession:
		return c.Tenant, p.agents != nil || waiting && len(c.Message) > 0
	case tree.SpawnCalls, tree.SpawnTask:
		id, known = p.session, waiting
	}
	if !known {
		return "", false
	}
	s := b.sessions[id].view.Session()
	if s == nil {
		return "", false
	}
	return s.Tenant, true
}

// knowsClaimed gives the session of which a command may claim a run, if everything of that
// run's conversation is remembered.
func (b *batch) knowsClaimed(p *Pending) (id tree.SessionID, known bool) {
	if claim, any := p.next(); any {
		id = p.offer.Next.Session
		return id, b.remembers(id, claim.Task)
	}
	id = p.session
	takes := p.offer != nil && b.mayTake(p.offer)
	switch c := p.cmd.(type) {
	case tree.Claim:
		known = b.remembers(id, c.Task)
	case tree.Park:
		known = takes
	case tree.End:
		ends := b.sessions[id].view.Held(c.From.Task)
		known = takes && ends != nil && b.wakings.has(id, ends.Parent)
	}
	return id, known
}

// remembers reports whether something of a task's conversation is remembered.
func (b *batch) remembers(id tree.SessionID, task tree.TaskID) bool {
	return len(b.beginnings.messages[inSession[tree.TaskID]{id, task}]) > 0 || b.wakings.has(id, task)
}

// conversation gives what the worker of a claimed run needs, if the batch has it at hand.
func (b *batch) conversation(claimed *tree.Claimed) *Conversation {
	if claimed == nil {
		return nil
	}
	t := &claimed.Task
	messages, agents := b.beginnings.take(t), b.agents[claimed.Tenant]
	if messages == nil || agents == nil || b.unread {
		return nil
	}
	own := transcript.Link{Task: t.ID, Description: t.Description, Base: t.Base, Messages: messages}
	return &Conversation{Messages: transcript.Conversation([]transcript.Link{own}), Agents: *agents}
}

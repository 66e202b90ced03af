package store

import (
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// firstMessageCache caches the first messages of tasks that this process has written and no worker
// has claimed yet, so that the claim need not read them. Messages never change, so the cache is
// right whoever else writes; the task's row tells whether it is complete. Only the committer uses
// it.
type firstMessageCache struct {
	messages map[sessionKey[tree.TaskID]][]tree.Message
	bytes    int
}

// maxFirstMessageBytes is the size of cached messages above which a committer empties the cache. Each
// message counts with cachedRowBytes in addition to its text. There is room for the prompts, if they
// are short, of as many waiting runs as are picked in memory (maxMirrored): without it, a claim costs
// several times as much.
const maxFirstMessageBytes = 16 << 20

func newFirstMessageCache() firstMessageCache {
	return firstMessageCache{messages: map[sessionKey[tree.TaskID]][]tree.Message{}}
}

// put takes in the messages that were just committed for a session.
func (c *firstMessageCache) put(id tree.SessionID, messages []*tree.Message) {
	for _, m := range messages {
		key := sessionKey[tree.TaskID]{id, m.Task}
		known := c.messages[key]
		if m.Role != tree.RoleUser || !m.News.Task.IsZero() || m.Ordinal != len(known)+1 {
			c.forget(key)
			continue
		}
		if c.bytes += cachedRowBytes + tree.TextBytes(m.Blocks); c.bytes > maxFirstMessageBytes {
			clear(c.messages)
			c.bytes = 0
			continue
		}
		c.messages[key] = append(known, *m)
	}
}

// take removes and gives all messages of a task; nil if they are not all cached.
func (c *firstMessageCache) take(t *tree.Task) []tree.Message {
	key := sessionKey[tree.TaskID]{t.Session, t.ID}
	known := c.messages[key]
	c.forget(key)
	if len(known) != t.NextOrdinal-1 || t.OpenCalls > 0 || t.Base.Inherits() {
		return nil
	}
	return known
}

func (c *firstMessageCache) forget(key sessionKey[tree.TaskID]) {
	for _, m := range c.messages[key] {
		c.bytes -= cachedRowBytes + tree.TextBytes(m.Blocks)
	}
	delete(c.messages, key)
}

// agentLookups looks up the agents of the tenants whose runs may be claimed. A tenant counts only
// if it is known already; a session's tenant never changes. It also looks up, or compares, those of
// sessions that are to be opened with agents that were read before.
func (b *batch) agentLookups(queued []*Pending) (lookups []lookup) {
	waiting := b.idleSlots() >= 0
	for _, p := range queued {
		tenant, known := b.tenantOfClaim(p, waiting)
		if p.agents != nil && !b.readsAgents() {
			lookups = append(lookups, b.compareAgents(tenant, p.agents)...)
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

// tenantOfClaim gives the tenant whose agents a command needs: that of a run that it may claim, if
// the run's whole conversation is cached, or that of a child or session that it starts while slots
// wait. It also gives the tenant of a session that is to be opened with agents that were read
// before.
func (b *batch) tenantOfClaim(p *Pending, waiting bool) (tenant string, known bool) {
	id, known := b.claimFromCache(p)
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

// claimFromCache gives the session of the run that a command may claim, and whether the
// conversation of that run is cached.
func (b *batch) claimFromCache(p *Pending) (id tree.SessionID, known bool) {
	if claim, any := p.nextClaim(); any {
		id = p.offer.Next.Session
		return id, b.hasCached(id, claim.Task)
	}
	id = p.session
	takes := p.offer != nil && b.mayClaimNext(p.offer)
	switch c := p.cmd.(type) {
	case tree.Claim:
		known = b.hasCached(id, c.Task)
	case tree.Park:
		known = takes
	case tree.End:
		ends := b.sessions[id].view.HeldTask(c.From.Task)
		known = takes && ends != nil && b.tails.has(id, ends.Parent)
	}
	return id, known
}

// hasCached reports whether anything of a task's conversation is cached.
func (b *batch) hasCached(id tree.SessionID, task tree.TaskID) bool {
	return len(b.firstMessages.messages[sessionKey[tree.TaskID]{id, task}]) > 0 || b.tails.has(id, task)
}

// newConversation gives the conversation of a run that was claimed for the first time; nil if the
// batch does not have all of it.
func (b *batch) newConversation(claimed *tree.Claimed) *Conversation {
	if claimed == nil {
		return nil
	}
	t := &claimed.Task
	messages, agents := b.firstMessages.take(t), b.agents[claimed.Tenant]
	if messages == nil || agents == nil || b.resultsMissing {
		return nil
	}
	own := transcript.Link{Task: t.ID, Description: t.Description, Base: t.Base, Messages: messages}
	return &Conversation{Messages: transcript.Conversation([]transcript.Link{own}), Agents: *agents}
}

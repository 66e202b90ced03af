// Package primer has one request write into a provider's prompt cache what many are about to
// read.
//
// A provider can read a beginning from its cache once the answer to a request that wrote it has
// begun. Agents of a kind that start together have their tools and their system prompt in
// common, and each of them would write those, and pay for that, though one is enough. So the
// first of a kind goes alone until its answer begins, and the others wait for that: for a
// moment, and never for long.
package primer

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/model"
)

const (
	// cachedFor is how long a beginning is taken to stay in the cache since an answer to it has
	// begun: less than the five minutes that Anthropic keeps what nobody reads.
	cachedFor = 4 * time.Minute
	// waitAtMost is how long a request waits for another to write its beginning.
	waitAtMost = 10 * time.Second
	// leastCached is how long a beginning has to be, in bytes, to be waited for: Anthropic caches
	// none of less than 1,024 tokens.
	leastCached = 4096
	// forgetAbove is for how many beginnings those that are not cached any more are forgotten.
	forgetAbove = 1000
)

// Model lets the first request of a kind go first. It implements [model.Model].
type Model struct {
	model model.Model
	seed  maphash.Seed

	mu     sync.Mutex
	kinds  map[uint64]*kind
	forget int // when there are more kinds, those that are not cached are forgotten
}

var _ model.Model = (*Model)(nil)

// New lets requests to a model go through.
func New(m model.Model) *Model {
	return &Model{model: m, seed: maphash.MakeSeed(), kinds: map[uint64]*kind{}, forget: forgetAbove}
}

// kind is what is known of the requests that begin alike.
type kind struct {
	cachedUntil time.Time
	first       *first // nil: no request writes the beginning
}

// first is a request that writes the beginning of its kind.
type first struct {
	over  chan struct{} // closed when its answer has begun, or there is none
	until time.Time     // when others wait no longer for it
}

// Generate asks the model, once what the request begins with is in the cache or nobody else is
// about to write it.
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	if emit == nil {
		emit = func(model.Delta) {}
	}
	key, long := m.beginning(req)
	if !long {
		return m.model.Generate(ctx, req, emit)
	}
	mine, err := m.enter(ctx, key)
	if err != nil {
		return nil, err
	}
	defer m.leave(key, mine)
	begun := sync.OnceFunc(func() { m.begun(key) })
	answer, err := m.model.Generate(ctx, req, func(d model.Delta) {
		if !d.Restart {
			begun()
		}
		emit(d)
	})
	if err == nil {
		begun()
	}
	return answer, err
}

// beginning names what a request begins with, and reports whether that is long enough to be cached.
func (m *Model) beginning(req *model.Request) (key uint64, long bool) {
	var h maphash.Hash
	h.SetSeed(m.seed)
	size := 0
	add := func(text string) {
		size += len(text)
		h.WriteString(text)
		h.WriteByte(0)
	}
	add(req.Model)
	for _, t := range req.Tools {
		add(t.Name)
		add(t.Description)
		add(string(t.Schema))
	}
	add(req.System)
	return h.Sum64(), size >= leastCached
}

// enter waits until the request may go. It gives what says that the others wait for it; nil if they don't.
func (m *Model) enter(ctx context.Context, key uint64) (*first, error) {
	patience := time.NewTimer(waitAtMost)
	defer patience.Stop()
	for {
		before, mine := m.look(key)
		if before == nil {
			return mine, nil
		}
		select {
		case <-before.over:
		case <-time.After(time.Until(before.until)):
			return nil, nil
		case <-patience.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look gives the request to be waited for; or, if there is none, what says that others wait for
// this one, unless the beginning is cached.
func (m *Model) look(key uint64) (before, mine *first) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, now := m.kinds[key], time.Now()
	switch {
	case k == nil:
		m.forgetOld(now)
		k = &kind{}
		m.kinds[key] = k
	case now.Before(k.cachedUntil):
		return nil, nil
	case k.first != nil:
		return k.first, nil
	}
	k.first = &first{over: make(chan struct{}), until: now.Add(waitAtMost)}
	return nil, k.first
}

// begun says that an answer has begun: what it begins with can be read.
func (m *Model) begun(key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.kinds[key]
	if k == nil {
		return // it has been forgotten meanwhile
	}
	k.cachedUntil = time.Now().Add(cachedFor)
	k.end()
}

// leave says that a request is over. If its answer has never begun, another one goes first.
func (m *Model) leave(key uint64, mine *first) {
	if mine == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.kinds[key]; k != nil && k.first == mine {
		k.end()
	}
}

// end ends the wait for the request that goes first.
func (k *kind) end() {
	if k.first != nil {
		close(k.first.over)
		k.first = nil
	}
}

// forgetOld forgets, now and then, what is not cached and nobody writes.
func (m *Model) forgetOld(now time.Time) {
	if len(m.kinds) < m.forget {
		return
	}
	for key, k := range m.kinds {
		if k.first == nil && !now.Before(k.cachedUntil) {
			delete(m.kinds, key)
		}
	}
	m.forget = forgetAbove + 2*len(m.kinds)
}

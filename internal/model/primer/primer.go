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
	// cacheTTL is how long a beginning is taken to stay in the cache since an answer to it has
	// begun: less than the five minutes that Anthropic keeps what nobody reads.
	cacheTTL = 4 * time.Minute
	// maxWait is how long a request waits for another to write its beginning.
	maxWait = 10 * time.Second
	// minCachedBytes is how long a beginning has to be, in bytes, to be waited for: Anthropic caches
	// none of less than 1,024 tokens.
	minCachedBytes = 4096
	// minEvictAbove is for how many beginnings those that are not cached any more are forgotten.
	minEvictAbove = 1000
)

// Model lets the first request of a kind go first. It implements [model.Model].
type Model struct {
	model model.Model
	seed  maphash.Seed

	mu         sync.Mutex
	prefixes   map[uint64]*prefixState
	evictAbove int // when there are more kinds, those that are not cached are forgotten
}

var _ model.Model = (*Model)(nil)

// New lets requests to a model go through.
func New(m model.Model) *Model {
	return &Model{model: m, seed: maphash.MakeSeed(), prefixes: map[uint64]*prefixState{}, evictAbove: minEvictAbove}
}

// prefixState is what is known of the requests that begin alike.
type prefixState struct {
	cachedUntil time.Time
	writer      *prefixWriter // nil: no request writes the beginning
}

// first is a request that writes the beginning of its kind.
type prefixWriter struct {
	done      chan struct{} // closed when its answer has begun, or there is none
	waitUntil time.Time     // when others wait no longer for it
}

// Generate asks the model, once what the request begins with is in the cache or nobody else is
// about to write it.
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	if emit == nil {
		emit = func(model.Delta) {}
	}
	key, long := m.prefixKey(req)
	if !long {
		return m.model.Generate(ctx, req, emit)
	}
	mine, err := m.enter(ctx, key)
	if err != nil {
		return nil, err
	}
	defer m.release(key, mine)
	begun := sync.OnceFunc(func() { m.answerStarted(key) })
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

// prefixKey names what a request begins with, and reports whether that is long enough to be cached.
func (m *Model) prefixKey(req *model.Request) (key uint64, long bool) {
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
	return h.Sum64(), size >= minCachedBytes
}

// enter waits until the request may go. It gives what says that the others wait for it; nil if they don't.
func (m *Model) enter(ctx context.Context, key uint64) (*prefixWriter, error) {
	patience := time.NewTimer(maxWait)
	defer patience.Stop()
	for {
		before, mine := m.claimPrefix(key)
		if before == nil {
			return mine, nil
		}
		select {
		case <-before.done:
		case <-time.After(time.Until(before.waitUntil)):
			return nil, nil
		case <-patience.C:
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// claimPrefix gives the request to be waited for; or, if there is none, what says that others wait for
// this one, unless the beginning is cached.
func (m *Model) claimPrefix(key uint64) (before, mine *prefixWriter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, now := m.prefixes[key], time.Now()
	switch {
	case k == nil:
		m.evictExpired(now)
		k = &prefixState{}
		m.prefixes[key] = k
	case now.Before(k.cachedUntil):
		return nil, nil
	case k.writer != nil:
		return k.writer, nil
	}
	k.writer = &prefixWriter{done: make(chan struct{}), waitUntil: now.Add(maxWait)}
	return nil, k.writer
}

// answerStarted says that an answer has begun: what it begins with can be read.
func (m *Model) answerStarted(key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.prefixes[key]
	if k == nil {
		return // it has been forgotten meanwhile
	}
	k.cachedUntil = time.Now().Add(cacheTTL)
	k.releaseWaiters()
}

// release says that a request is over. If its answer has never begun, another one goes first.
func (m *Model) release(key uint64, mine *prefixWriter) {
	if mine == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.prefixes[key]; k != nil && k.writer == mine {
		k.releaseWaiters()
	}
}

// releaseWaiters ends the wait for the request that goes first.
func (k *prefixState) releaseWaiters() {
	if k.writer != nil {
		close(k.writer.done)
		k.writer = nil
	}
}

// evictExpired forgets, now and then, what is not cached and nobody writes.
func (m *Model) evictExpired(now time.Time) {
	if len(m.prefixes) < m.evictAbove {
		return
	}
	for key, k := range m.prefixes {
		if k.writer == nil && !now.Before(k.cachedUntil) {
			delete(m.prefixes, key)
		}
	}
	m.evictAbove = minEvictAbove + 2*len(m.prefixes)
}

// Package primer lets one request write a provider's prompt cache before others read it.
//
// A provider can serve a prompt prefix from its cache once the answer to a request that wrote
// the prefix has started. Agents of one definition that start together share their tools and
// their system prompt. Without this package each of them would write that prefix and pay for
// it. So the first request with a prefix goes alone until its answer starts. The others wait
// for that, for a bounded time.
package primer

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/model"
)

const (
	// cacheTTL is how long a prefix is assumed to stay cached after an answer has started.
	// Anthropic keeps a prefix that is not read for five minutes.
	cacheTTL = 4 * time.Minute
	// maxWait is how long a request waits for another one to write its prefix.
	maxWait = 10 * time.Second
	// minCachedBytes is the length from which a prefix is worth waiting for. Anthropic caches
	// none of less than 1,024 tokens.
	minCachedBytes = 4096
	// minEvictAbove is the number of prefixes from which expired ones are evicted.
	minEvictAbove = 1000
)

// Model delays requests whose prefix another request is writing. It implements [model.Model].
type Model struct {
	model model.Model
	seed  maphash.Seed

	mu         sync.Mutex
	prefixes   map[uint64]*prefixState
	evictAbove int // expired prefixes are evicted when there are more than this
}

var _ model.Model = (*Model)(nil)

// New wraps a model.
func New(m model.Model) *Model {
	return &Model{model: m, seed: maphash.MakeSeed(), prefixes: map[uint64]*prefixState{}, evictAbove: minEvictAbove}
}

// prefixState is what is known of one prefix.
type prefixState struct {
	cachedUntil time.Time
	writer      *prefixWriter // nil: no request is writing the prefix
}

// prefixWriter is the request that writes a prefix.
type prefixWriter struct {
	done      chan struct{} // closed when its answer has started, or the request has ended
	waitUntil time.Time     // other requests wait no longer than this
}

// Generate forwards the request to the model once its prefix is cached or no other request is
// writing it.
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

// prefixKey returns the hash of a request's prefix, and whether the prefix is long enough to be
// cached.
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

// enter waits until the request may go. It returns the writer if this request writes the
// prefix, otherwise nil.
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

// claimPrefix returns the request to wait for. If there is none, it registers this request as
// the writer, unless the prefix is cached.
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

// answerStarted records that an answer has started, so the prefix can be read from the cache.
func (m *Model) answerStarted(key uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.prefixes[key]
	if k == nil {
		return // it has been evicted meanwhile
	}
	k.cachedUntil = time.Now().Add(cacheTTL)
	k.releaseWaiters()
}

// release ends the request. If its answer never started, another request becomes the writer.
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

// releaseWaiters ends the wait for the writer.
func (k *prefixState) releaseWaiters() {
	if k.writer != nil {
		close(k.writer.done)
		k.writer = nil
	}
}

// evictExpired deletes, from time to time, the prefixes that are neither cached nor being
// written.
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

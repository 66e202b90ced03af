package orchestrator

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/tree"
)

// Relayed text is a preview. So each replica gets one message at a time, with a pause after it, and
// text that does not fit into the buffer is lost. A message has up to relayBatchBytes, and the
// buffer relayBufferBytes. Each piece counts pieceOverhead in addition to its text.
const (
	relayPause            = 20 * time.Millisecond
	relayRetry            = time.Second // the pause after a failure
	relayBatchBytes       = 64 << 10
	relayBufferBytes      = 1 << 20
	pieceOverhead         = 256
	maxInterests          = 1 << 16 // interests, of all replicas
	maxInterestedReplicas = 256     // replicas
)

// relay buffers the text that workers send to this replica for sessions that are watched at other
// replicas. If there are none, a piece costs one atomic load.
type relay struct {
	now           func() time.Time
	interestCount atomic.Int64  // the number of interests
	changed       chan struct{} // holds one: pieces are waiting
	flushNow      chan struct{} // holds one: end the pause

	mu        sync.Mutex
	interests map[string]map[tree.SessionID]time.Time // by replica and session: when they expire
	waiting   []*queuedPiece                          // the oldest first
	last      map[tree.TaskID]*queuedPiece            // the last waiting piece of each task
	size      int                                     // of all waiting pieces, in bytes
}

// queuedPiece is a waiting piece. Its text may still grow.
type queuedPiece struct {
	dispatch.Piece
	text []byte
}

func newRelay(now func() time.Time) *relay {
	return &relay{
		now: now, changed: make(chan struct{}, 1), flushNow: make(chan struct{}, 1),
		interests: map[string]map[tree.SessionID]time.Time{}, last: map[tree.TaskID]*queuedPiece{},
	}
}

// setInterest records or removes an interest of another replica. Interests beyond the bounds are
// ignored.
func (r *relay) setInterest(i dispatch.Interest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sessions, known := r.interests[i.Replica]
	_, again := sessions[i.Session]
	switch full := r.interestCount.Load() >= maxInterests || !known && len(r.interests) >= maxInterestedReplicas; {
	case i.Over && again:
		r.removeInterest(i.Replica, i.Session)
		return
	case i.Over || full && !again:
		return
	case !known:
		sessions = map[tree.SessionID]time.Time{}
		r.interests[i.Replica] = sessions
	}
	if !again {
		r.interestCount.Add(1)
	}
	sessions[i.Session] = r.now().Add(interestTTL)
}

// removeInterest requires the lock.
func (r *relay) removeInterest(replica string, id tree.SessionID) {
	delete(r.interests[replica], id)
	r.interestCount.Add(-1)
	if len(r.interests[replica]) == 0 {
		delete(r.interests, replica)
	}
}

// expire removes the interests that were not renewed.
func (r *relay) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for replica, sessions := range r.interests {
		for id, until := range sessions {
			if !until.After(now) {
				r.removeInterest(replica, id)
			}
		}
	}
}

// interestedReplicas returns the replicas that are interested in a session. It requires the lock.
func (r *relay) interestedReplicas(id tree.SessionID) iter.Seq[string] {
	return func(yield func(string) bool) {
		now := r.now()
		for replica, sessions := range r.interests {
			if sessions[id].After(now) && !yield(replica) {
				return
			}
		}
	}
}

// isWanted reports whether any replica is interested in a session. It requires the lock.
func (r *relay) isWanted(id tree.SessionID) bool {
	for range r.interestedReplicas(id) {
		return true
	}
	return false
}

// put queues a piece if a replica is interested in it and there is room. It never blocks.
func (r *relay) put(p dispatch.Piece) {
	if r.interestCount.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isWanted(p.Session) {
		return
	}
	last := r.last[p.Task]
	grows := last != nil && last.Run == p.Run && last.Thinking == p.Thinking && !last.Restart && !p.Restart &&
		len(last.text)+len(p.Text) <= dispatch.MaxPieceBytes
	size := len(p.Text)
	if !grows {
		size += pieceOverhead
	}
	if r.size+size > relayBufferBytes {
		return
	}
	r.size += size
	if !grows {
		last = &queuedPiece{Piece: p}
		last.Text = "" // set when it is taken
		r.waiting, r.last[p.Task] = append(r.waiting, last), last
	}
	last.text = append(last.text, p.Text...)
	signal(r.changed)
}

// flush ends the pause before the next message. It is called after a commit, which may hold the end
// of the waiting text and which watchers are about to see.
func (r *relay) flush() {
	if r.interestCount.Load() != 0 && len(r.changed) != 0 {
		signal(r.flushNow)
	}
}

// take removes what is to be sent next, and returns it by replica.
func (r *relay) take() []dispatch.TextBatch {
	r.mu.Lock()
	defer r.mu.Unlock()
	size, taken := 0, 0
	pieces := map[string][]dispatch.Piece{}
	for _, p := range r.waiting {
		if size += len(p.text) + pieceOverhead; size > relayBatchBytes {
			size -= len(p.text) + pieceOverhead
			signal(r.changed)
			break
		}
		taken++
		if r.last[p.Task] == p {
			delete(r.last, p.Task)
		}
		p.Text = string(p.text)
		for replica := range r.interestedReplicas(p.Session) {
			pieces[replica] = append(pieces[replica], p.Piece)
		}
	}
	left := copy(r.waiting, r.waiting[taken:])
	clear(r.waiting[left:])
	r.waiting, r.size = r.waiting[:left], r.size-size
	batches := make([]dispatch.TextBatch, 0, len(pieces))
	for replica, list := range pieces {
		batches = append(batches, dispatch.TextBatch{To: replica, Pieces: list})
	}
	return batches
}

// relayText sends text to interested replicas until ctx ends. Text that is written while Redis is
// away is lost to them.
func (s *Service) relayText(ctx context.Context) error {
	look := time.NewTicker(interestTTL)
	defer look.Stop()
	for {
		select {
		case <-s.relay.changed:
		case <-look.C:
			s.relay.expire()
			continue
		case <-ctx.Done():
			return nil
		}
		err := s.Bus.SendText(ctx, s.Replica, s.relay.take()...)
		if err != nil && ctx.Err() == nil {
			s.Bus.LogFailure(ctx, "sending text to other replicas failed", err)
		}
		if !s.relay.pause(ctx, err != nil) {
			return nil
		}
	}
}

// pause waits for the pause after a message, or until flush is called. It reports false if ctx has
// ended.
func (r *relay) pause(ctx context.Context, failed bool) bool {
	if failed {
		return sleep(ctx, relayRetry)
	}
	pause := time.NewTimer(relayPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-r.flushNow:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

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

// What is relayed is a preview, so it goes with one message for each replica at a time,
// with a pause after it, and what has no room is lost. relaySize is how much is sent at
// once, and relayRoom how much may wait; each piece counts pieceSize beside its text.
const (
	relayPause  = 20 * time.Millisecond
	relayRetry  = time.Second // the pause after a failure
	relaySize   = 64 << 10
	relayRoom   = 1 << 20
	pieceSize   = 256
	wishesMost  = 1 << 16 // of all replicas
	wishersMost = 256     // replicas
)

// relay is what workers write to this replica while somebody at another one watches.
// Where nobody does, a piece costs a look at a number.
type relay struct {
	now    func() time.Time
	wished atomic.Int64  // how many wishes there are
	some   chan struct{} // holds one: something waits
	urgent chan struct{} // holds one: what waits is not to wait for more

	mu      sync.Mutex
	wishes  map[string]map[tree.SessionID]time.Time // of each replica, and until when
	waiting []*relayed                              // the oldest first
	last    map[tree.TaskID]*relayed                // of those that wait, the last of each task
	size    int                                     // of all that waits
}

// relayed is a piece that waits: its text may still grow.
type relayed struct {
	dispatch.Piece
	text []byte
}

func newRelay(now func() time.Time) *relay {
	return &relay{
		now: now, some: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
		wishes: map[string]map[tree.SessionID]time.Time{}, last: map[tree.TaskID]*relayed{},
	}
}

// wish takes in what another replica wishes for. What goes beyond all bounds is no
// replica's.
func (r *relay) wish(w dispatch.Wish) {
	r.mu.Lock()
	defer r.mu.Unlock()
	sessions, known := r.wishes[w.Replica]
	_, again := sessions[w.Session]
	switch full := r.wished.Load() >= wishesMost || !known && len(r.wishes) >= wishersMost; {
	case w.Over && again:
		r.end(w.Replica, w.Session)
		return
	case w.Over || full && !again:
		return
	case !known:
		sessions = map[tree.SessionID]time.Time{}
		r.wishes[w.Replica] = sessions
	}
	if !again {
		r.wished.Add(1)
	}
	sessions[w.Session] = r.now().Add(wishFor)
}

// end forgets a wish. The caller holds the lock.
func (r *relay) end(replica string, id tree.SessionID) {
	delete(r.wishes[replica], id)
	r.wished.Add(-1)
	if len(r.wishes[replica]) == 0 {
		delete(r.wishes, replica)
	}
}

// expire forgets the wishes that were not told again.
func (r *relay) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for replica, sessions := range r.wishes {
		for id, until := range sessions {
			if !until.After(now) {
				r.end(replica, id)
			}
		}
	}
}

// wishers are the replicas that wish for a session. The caller holds the lock.
func (r *relay) wishers(id tree.SessionID) iter.Seq[string] {
	return func(yield func(string) bool) {
		now := r.now()
		for replica, sessions := range r.wishes {
			if sessions[id].After(now) && !yield(replica) {
				return
			}
		}
	}
}

// wishedFor reports whether anybody wishes for a session. The caller holds the lock.
func (r *relay) wishedFor(id tree.SessionID) bool {
	for range r.wishers(id) {
		return true
	}
	return false
}

// put queues a piece if somebody wishes for it and there is room. It never waits.
func (r *relay) put(p dispatch.Piece) {
	if r.wished.Load() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.wishedFor(p.Session) {
		return
	}
	before := r.last[p.Task]
	grows := before != nil && before.Run == p.Run && before.Thinking == p.Thinking && !before.Restart && !p.Restart &&
		len(before.text)+len(p.Text) <= dispatch.PieceBytes
	size := len(p.Text)
	if !grows {
		size += pieceSize
	}
	if r.size+size > relayRoom {
		return
	}
	r.size += size
	if !grows {
		before = &relayed{Piece: p}
		before.Text = "" // until it is taken
		r.waiting, r.last[p.Task] = append(r.waiting, before), before
	}
	before.text = append(before.text, p.Text...)
	signal(r.some)
}

// hurry has what waits sent at once: something is stored, which may be the end of what
// was written before it, and who watches is about to be told.
func (r *relay) hurry() {
	if r.wished.Load() != 0 && len(r.some) != 0 {
		signal(r.urgent)
	}
}

// take gives what is to be sent next, and to whom.
func (r *relay) take() []dispatch.Parcel {
	r.mu.Lock()
	defer r.mu.Unlock()
	size, taken := 0, 0
	pieces := map[string][]dispatch.Piece{}
	for _, p := range r.waiting {
		if size += len(p.text) + pieceSize; size > relaySize {
			size -= len(p.text) + pieceSize
			signal(r.some)
			break
		}
		taken++
		if r.last[p.Task] == p {
			delete(r.last, p.Task)
		}
		p.Text = string(p.text)
		for replica := range r.wishers(p.Session) {
			pieces[replica] = append(pieces[replica], p.Piece)
		}
	}
	left := copy(r.waiting, r.waiting[taken:])
	clear(r.waiting[left:])
	r.waiting, r.size = r.waiting[:left], r.size-size
	parcels := make([]dispatch.Parcel, 0, len(pieces))
	for replica, some := range pieces {
		parcels = append(parcels, dispatch.Parcel{To: replica, Pieces: some})
	}
	return parcels
}

// relayText sends what workers write here to the replicas where it is watched, until ctx
// ends. While Redis is away, what is written is lost to them.
func (s *Service) relayText(ctx context.Context) error {
	look := time.NewTicker(wishFor)
	defer look.Stop()
	for {
		select {
		case <-s.relay.some:
		case <-look.C:
			s.relay.expire()
			continue
		case <-ctx.Done():
			return nil
		}
		err := s.Bus.Send(ctx, s.Replica, s.relay.take()...)
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "sending text to other replicas failed", "error", err)
		}
		if !s.relay.rest(ctx, err != nil) {
			return nil
		}
	}
}

// rest reports whether ctx has outlasted the pause after a message.
func (r *relay) rest(ctx context.Context, failed bool) bool {
	if failed {
		return sleep(ctx, relayRetry)
	}
	pause := time.NewTimer(relayPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-r.urgent:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

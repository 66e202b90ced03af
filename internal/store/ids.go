package store

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// idSource makes ids (UUIDv7). Lists of a session's tasks and approvals are in the order of their
// ids, which several replicas may have made. So their time is that of the decision, not that of this
// machine's clock. A counter keeps those of one time in order, which are all of one replica; it
// starts at random, so that replicas do not make the same ids.
type idSource struct{ made atomic.Uint32 }

func newIDSource() *idSource {
	s := new(idSource)
	s.made.Store(rand.Uint32())
	return s
}

// The 62 bits of an id that are neither its time nor its version and variant.
const idRandomBits = 62 - 32 // the counter has the other 32

// next makes an id with a time. What does not fit into milliseconds is in the 12 bits after them.
func (s *idSource) next(at time.Time) (id [16]byte) {
	ms := at.UnixMilli()
	fraction := at.Sub(time.UnixMilli(ms)) << 12 / time.Millisecond
	counted := uint64(s.made.Add(1))<<idRandomBits | rand.Uint64()>>(64-idRandomBits)
	binary.BigEndian.PutUint64(id[:8], uint64(ms)<<16|7<<12|uint64(fraction))
	binary.BigEndian.PutUint64(id[8:], 0b10<<62|counted)
	return id
}

package store

import (
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/coppice-run/coppice/internal/tree"
)

// seen remembers the transcripts that were last read for claims, so that of a parent that
// wakes again and again only what is new is read. Messages never change, nor does what
// they tell of: whoever else writes, what is remembered is how the transcript begins.
type seen struct {
	mu          sync.Mutex
	transcripts *simplelru.LRU[inSession[tree.TaskID], beginning]
	bytes       int
}

// beginning is a transcript up to some message.
type beginning struct {
	messages []tree.Message
	bytes    int
}

// What is remembered is bounded; a message counts for messageBytes beside its text.
const (
	seenMost     = 10_000   // transcripts
	seenBytes    = 32 << 20 // of all of them
	messageBytes = 512
)

func newSeen() *seen {
	s := &seen{}
	forgotten := func(_ inSession[tree.TaskID], b beginning) { s.bytes -= b.bytes }
	s.transcripts, _ = simplelru.NewLRU(seenMost, forgotten) // it fails for a size of 0
	return s
}

// of gives what is remembered of a task's transcript, and the ordinal of its last message.
func (s *seen) of(id tree.SessionID, task tree.TaskID) (messages []tree.Message, last int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, _ := s.transcripts.Get(inSession[tree.TaskID]{id, task})
	if len(b.messages) == 0 {
		return nil, 0
	}
	return slices.Clip(b.messages), b.messages[len(b.messages)-1].Ordinal
}

// keep takes in a transcript, which nobody changes from now on.
func (s *seen) keep(id tree.SessionID, task tree.TaskID, messages []tree.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := inSession[tree.TaskID]{id, task}
	before, _ := s.transcripts.Peek(key)
	if len(messages) <= len(before.messages) {
		return
	}
	now := beginning{messages, before.bytes}
	for i := len(before.messages); i < len(messages); i++ {
		now.bytes += messageBytes + tree.TextBytes(messages[i].Blocks)
	}
	s.bytes += now.bytes - before.bytes
	s.transcripts.Add(key, now)
	for s.bytes > seenBytes {
		s.transcripts.RemoveOldest()
	}
}

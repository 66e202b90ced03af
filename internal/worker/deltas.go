package worker

import (
	"strings"
	"sync"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// The maximum time and size of a piece that is held back.
const (
	deltaDelay = 50 * time.Millisecond
	deltaBytes = 4 << 10
)

// deltas combines pieces of an answer in progress into larger ones. Models write token by token,
// and a message for each token would cost more than it is worth.
type deltas struct {
	send func(*pb.TextDelta)

	mu       sync.Mutex
	text     strings.Builder
	thinking bool
	timer    *time.Timer // nil: nothing is held back
}

// add appends a piece. It is sent after deltaDelay at the latest.
func (d *deltas) add(text string, thinking bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if thinking != d.thinking {
		d.flushLocked()
	}
	d.thinking = thinking
	d.text.WriteString(text)
	if d.text.Len() >= deltaBytes {
		d.flushLocked()
	} else if d.timer == nil {
		d.timer = time.AfterFunc(deltaDelay, d.flush)
	}
}

// restart reports at once that the answer in progress was given up, and drops what is held back.
func (d *deltas) restart(text string, thinking bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.Reset()
	d.flushLocked()
	d.send(&pb.TextDelta{Text: text, Thinking: thinking, Restart: true})
}

// flush sends what is held back.
func (d *deltas) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushLocked()
}

// take returns what is held back, for a caller that sends it with another request; nil if there is
// nothing.
func (d *deltas) take() *pb.TextDelta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.takeLocked()
}

// flushLocked is flush for a caller that holds mu.
func (d *deltas) flushLocked() {
	if piece := d.takeLocked(); piece != nil {
		d.send(piece)
	}
}

// takeLocked is take for a caller that holds mu.
func (d *deltas) takeLocked() (piece *pb.TextDelta) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.text.Len() > 0 {
		piece = &pb.TextDelta{Text: d.text.String(), Thinking: d.thinking}
		d.text.Reset()
	}
	return piece
}

package worker

import (
	"strings"
	"sync"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// How long a piece of an answer under way may be kept until more comes, and how much.
const (
	deltaDelay = 50 * time.Millisecond
	deltaBytes = 4 << 10
)

// deltas gathers pieces of an answer under way: models write token by token, and a
// message for each would cost more than it shows.
type deltas struct {
	send func(*pb.TextDelta)

	mu       sync.Mutex
	text     strings.Builder
	thinking bool
	timer    *time.Timer // nil: nothing is kept
}

// add shows a piece, soon.
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

// restart says at once that the answer under way was given up; what is kept of it is dropped.
func (d *deltas) restart(text string, thinking bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.Reset()
	d.flushLocked()
	d.send(&pb.TextDelta{Text: text, Thinking: thinking, Restart: true})
}

// flush shows what is kept.
func (d *deltas) flush() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.flushLocked()
}

// take gives what is kept, for who shows it with something else; nil if nothing is.
func (d *deltas) take() *pb.TextDelta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.takeLocked()
}

// show is flush. It needs the lock.
func (d *deltas) flushLocked() {
	if piece := d.takeLocked(); piece != nil {
		d.send(piece)
	}
}

// cut is take. It needs the lock.
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

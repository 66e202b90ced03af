package hook

import (
	"fmt"

	"github.com/coppice-run/coppice/internal/redact"
)

// output keeps the start and the end of a text, without secrets. It removes them before it cuts,
// because a part of a secret is not recognised.
type output struct {
	stream *redact.Stream
	ends   *headTail
}

func (h *Hooks) newOutput() *output {
	return &output{stream: h.Secrets.Stream(), ends: newHeadTail(maxOutput)}
}

// Write accepts everything, so it never blocks the writer.
func (o *output) Write(p []byte) (int, error) {
	_, _ = o.ends.Write([]byte(o.stream.Write(string(p)))) // it never fails
	return len(p), nil
}

// end returns what is kept. Nothing is written after that.
func (o *output) end() string {
	_, _ = o.ends.Write([]byte(o.stream.Flush())) // it never fails
	return o.ends.String()
}

// cut returns the start and the end of a text, as output does.
func (h *Hooks) cut(text string) string {
	o := h.newOutput()
	_, _ = o.Write([]byte(text)) // it never fails
	return o.end()
}

// headTail is a writer that keeps the start and the end of what is written.
type headTail struct {
	limit int // of head and tail each, in bytes
	head  []byte
	tail  []byte // a ring buffer once it is full
	next  int    // next position in the ring
	left  int64  // bytes that were dropped
}

func newHeadTail(limit int) *headTail { return &headTail{limit: limit / 2} }

// Write accepts everything, so it never blocks the writer.
func (e *headTail) Write(p []byte) (int, error) {
	n := len(p)
	room := min(e.limit-len(e.head), len(p))
	e.head, p = append(e.head, p[:room]...), p[room:]
	if len(p) > e.limit {
		e.left += int64(len(p) - e.limit + len(e.tail))
		e.tail, e.next = append(e.tail[:0], p[len(p)-e.limit:]...), 0
		return n, nil
	}
	room = min(e.limit-len(e.tail), len(p))
	e.tail, p = append(e.tail, p[:room]...), p[room:]
	e.left += int64(len(p))
	for len(p) > 0 {
		copied := copy(e.tail[e.next:], p)
		e.next, p = (e.next+copied)%e.limit, p[copied:]
	}
	return n, nil
}

// String returns both, with a note between them if something is missing.
func (e *headTail) String() string {
	if e.left == 0 {
		return string(e.head) + string(e.tail)
	}
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s%s", e.head, e.left, e.tail[e.next:], e.tail[:e.next])
}

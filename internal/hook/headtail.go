package hook

import "fmt"

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

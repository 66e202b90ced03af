package store

import (
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

func TestSeen(t *testing.T) {
	t.Parallel()
	text := func(n int) []tree.Message {
		messages := make([]tree.Message, n)
		for i := range messages {
			messages[i] = tree.Message{Ordinal: i + 1, Blocks: []tree.Block{tree.Text{Text: string(make([]byte, 1<<20))}}}
		}
		return messages
	}
	var id tree.SessionID
	tasks := make([]tree.TaskID, 4)
	for i := range tasks {
		tasks[i][0] = byte(i + 1)
	}
	s := newSeen()
	last := func(task int) int {
		t.Helper()
		messages, last := s.of(id, tasks[task])
		if len(messages) != last {
			t.Errorf("the last of %d messages is %d", len(messages), last)
		}
		return last
	}
	s.keep(id, tasks[0], text(3))
	s.keep(id, tasks[0], text(2)) // of one who read before
	if got := last(0); got != 3 {
		t.Errorf("%d messages are remembered, want 3", got)
	}
	s.keep(id, tasks[1], text(10))
	s.keep(id, tasks[2], text(10))
	s.keep(id, tasks[0], text(8)) // 28 MiB, and a little for each message
	if got := []int{last(0), last(1), last(2), last(3)}; !slices.Equal(got, []int{8, 10, 10, 0}) {
		t.Errorf("%d messages are remembered, want 8, 10, 10, 0", got)
	}
	s.keep(id, tasks[3], text(5))
	if got := []int{last(0), last(1), last(2), last(3)}; !slices.Equal(got, []int{0, 10, 10, 5}) {
		t.Errorf("%d messages are remembered, want 0, 10, 10, 5: the first was used longest ago", got)
	}
	s.keep(id, tasks[3], text(40))
	if got := []int{last(0), last(1), last(2), last(3)}; !slices.Equal(got, []int{0, 0, 0, 0}) {
		t.Errorf("%d messages are remembered, want none: the last was more than there is room for", got)
	}
}

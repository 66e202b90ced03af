package transcript_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestHeld(t *testing.T) {
	t.Parallel()
	text := func(n int) []tree.Message {
		messages := make([]tree.Message, n)
		for i := range messages {
			messages[i] = tree.Message{Ordinal: i + 1, Blocks: []tree.Block{tree.Text{Text: string(make([]byte, 1<<20))}}}
		}
		return messages
	}
	tasks := make([]transcript.Key, 4)
	for i := range tasks {
		tasks[i].Task[0] = byte(i + 1)
	}
	s := transcript.NewCache()
	held := func(task int) int {
		t.Helper()
		return len(s.Get(tasks[task]))
	}
	s.Put(tasks[0], text(3))
	if got := held(0); got != 3 {
		t.Errorf("%d messages are remembered, want 3", got)
	}
	s.Put(tasks[1], text(10))
	s.Put(tasks[2], text(10))
	s.Put(tasks[0], text(8)) // 28 MiB, and a little for each message
	if got := []int{held(0), held(1), held(2), held(3)}; !slices.Equal(got, []int{8, 10, 10, 0}) {
		t.Errorf("%d messages are remembered, want 8, 10, 10, 0", got)
	}
	s.Put(tasks[3], text(5))
	if got := []int{held(0), held(1), held(2), held(3)}; !slices.Equal(got, []int{0, 10, 10, 5}) {
		t.Errorf("%d messages are remembered, want 0, 10, 10, 5: the first was used longest ago", got)
	}
	s.Put(tasks[3], text(40))
	if got := []int{held(0), held(1), held(2), held(3)}; !slices.Equal(got, []int{0, 0, 0, 0}) {
		t.Errorf("%d messages are remembered, want none: the last was more than there is room for", got)
	}
}

// TestSmallBlocksAreNotFree: calls and results take memory, however short their texts are.
func TestSmallBlocksAreNotFree(t *testing.T) {
	t.Parallel()
	const parents, calls = 1_000, 1_000 // 64 MB of blocks alone
	s := transcript.NewCache()
	parent := func(i int) transcript.Key { return transcript.Key{Task: tree.TaskID{byte(i >> 8), byte(i)}} }
	for i := range parents {
		blocks := make([]tree.Block, calls)
		for n := range blocks {
			blocks[n] = tree.ToolUse{Name: "task"}
		}
		s.Put(parent(i), []tree.Message{{Blocks: blocks}})
	}
	if first, last := s.Get(parent(0)), s.Get(parent(parents-1)); len(first) != 0 || len(last) != 1 {
		t.Errorf("of the first parent %d messages are remembered, of the last one %d; want none and 1", len(first), len(last))
	}
}

// TestHeldGoOn: whoever goes on from what is remembered has it whole, whoever else does so.
func TestHeldGoOn(t *testing.T) {
	t.Parallel()
	const rounds, racers = 100, 4
	s, of := transcript.NewCache(), transcript.Key{}
	message := func(ordinal, by int) tree.Message { return tree.Message{Ordinal: ordinal, Run: by} }
	for n := range rounds {
		begins := s.Get(of)
		if len(begins) != n {
			t.Fatalf("%d messages are remembered, want %d", len(begins), n)
		}
		var racing sync.WaitGroup
		for by := range racers {
			racing.Go(func() {
				all := s.Extend(of, begins, []tree.Message{message(n+1, by)})
				if len(all) != n+1 || all[n].Run != by {
					t.Errorf("%d goes on with %+v", by, all[n:])
				}
				for i := range n {
					if all[i].Ordinal != i+1 || all[i].Run != begins[i].Run {
						t.Errorf("message %d has become %+v", i+1, all[i])
					}
				}
			})
		}
		racing.Wait()
	}
}

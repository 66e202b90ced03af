package orchestrator

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/wire"
)

// bare returns a tail with one watcher, from an event on, and without a goroutine that reads.
func bare(from int64) *tail {
	return &tail{reread: make(chan struct{}, 1), changed: make(chan struct{}), positioned: true, last: from}
}

// some returns events of a size that follow the last one.
func some(t *tail, events, size int) []watchEvent {
	var all []watchEvent
	for range events {
		all = append(all, watchEvent{seq: t.last + 1 + int64(len(all)), step: wire.EventStep(bytes.Repeat([]byte{0}, size))})
	}
	return all
}

func TestATailKeepsTheLastEvents(t *testing.T) {
	t.Parallel()
	const batch, small, large = 100, 10, 64 << 10
	for _, c := range []struct {
		name         string
		events, size int
		kept         int // at most
	}{
		{"few", 3, small, 3},
		{"as many as there is room for", maxTailEvents, small, maxTailEvents},
		{"too many", 5 * maxTailEvents, small, maxTailEvents},
		{"too large", 100, large, maxTailBytes / large},
		{"each too large by itself", 2, maxTailBytes + 1, 0},
	} {
		l := bare(7)
		end := l.last + int64(c.events)
		for l.last < end {
			l.appendEvents(some(l, min(batch, int(end-l.last)), c.size))
		}
		if l.last != end || len(l.events) > c.kept || c.kept > 0 && len(l.events) == 0 {
			t.Errorf("%s: up to %d, %d events are kept, want up to %d, at most %d", c.name, l.last, len(l.events), end, c.kept)
		}
		held := 0
		for _, e := range l.events {
			held += e.step.Len()
		}
		if held != l.bytes || held > maxTailBytes {
			t.Errorf("%s: %d bytes are kept and said to be %d", c.name, held, l.bytes)
		}
		seen := end - int64(len(l.events))
		if g, err := l.after(seen-1, nil); seen > 7 && (err != nil || !g.behind) {
			t.Errorf("%s: who has not seen what was let go is shown %+v, %v", c.name, g, err)
		}
		room := make([]watchEvent, 7)
		for seen < end {
			g, err := l.after(seen, room)
			if err != nil || len(g.events) == 0 || g.events[0].seq != seen+1 {
				t.Fatalf("%s: after %d comes %+v, %v", c.name, seen, g, err)
			}
			seen = g.events[len(g.events)-1].seq
		}
	}
}

// TestATailLetsGoOfOldEvents: younger events stay when old ones are dropped.
func TestATailLetsGoOfOldEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := bare(0)
		for range 20 {
			l.appendEvents(some(l, 10, 1))
			time.Sleep(tailRetention / 4)
			if n := len(l.events); n > 2*4*10 || l.last > 4*10 && n < 4*10 {
				t.Fatalf("after %d events %d are kept", l.last, n)
			}
			if first := l.last - int64(len(l.events)) + 1; l.events[0].seq != first || l.bytes != len(l.events)*l.events[0].step.Len() {
				t.Fatalf("%d bytes from event %d on are kept, want from %d", l.bytes, l.events[0].seq, first)
			}
		}
	})
}

// TestATailForgets: a watcher that has not seen the dropped events has to read the store.
func TestATailForgets(t *testing.T) {
	t.Parallel()
	l := bare(0)
	l.appendEvents(some(l, 10, 1))
	l.dropAll()
	for seq, behind := range map[int64]bool{0: true, 9: true, 10: false, 11: false} {
		g, err := l.after(seq, make([]watchEvent, 1))
		if err != nil || g.behind != behind || len(g.events) > 0 {
			t.Errorf("after %d comes %+v, %v", seq, g, err)
		}
	}
	l.appendEvents(some(l, 1, 1))
	if g, err := l.after(10, make([]watchEvent, 1)); err != nil || len(g.events) != 1 {
		t.Errorf("after what was forgotten comes %+v, %v", g, err)
	}
}

// TestATailWakesWhoWaits: only waiting watchers are woken.
func TestATailWakesWhoWaits(t *testing.T) {
	t.Parallel()
	woken := func(news chan struct{}) bool {
		select {
		case <-news:
			return true
		default:
			return false
		}
	}
	l := bare(5)
	waits, err := l.after(5, nil)
	if err != nil || woken(waits.changed) {
		t.Fatalf("who has seen everything is shown %+v, %v", waits, err)
	}
	l.appendEvents(nil)
	if woken(waits.changed) {
		t.Error("nothing wakes somebody")
	}
	l.appendEvents(some(l, 1, 1))
	if !woken(waits.changed) {
		t.Error("an event wakes nobody")
	}
	if g, err := l.after(5, make([]watchEvent, 1)); err != nil || !woken(g.changed) {
		t.Errorf("who has not seen everything waits: %+v, %v", g, err)
	}
}

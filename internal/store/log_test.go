package store_test

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestLogRows: whatever sizes events have, each is in one row, rows are of one session and
// as small as they have to be, and each has its events after any number.
func TestLogRows(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var of []tree.SessionID
		var seqs []int64
		var events [][]byte
		want := map[tree.SessionID][][]byte{}
		first := rng.Int64N(1000)
		for range 1 + rng.IntN(3) {
			id := newSession()
			for n := range int64(1 + rng.IntN(80)) {
				e := bytes.Repeat([]byte{byte(8 + n)}, 1+rng.IntN(1<<rng.IntN(13)))
				of, seqs, events = append(of, id), append(seqs, first+n), append(events, e)
				want[id] = append(want[id], e)
			}
		}
		rows := store.LogRows(of, seqs, events)
		seen := map[tree.SessionID]int64{}
		for _, row := range rows {
			begins := first + seen[row.Session]
			all := want[row.Session][seen[row.Session] : row.Last()-first+1]
			seen[row.Session] += int64(len(all))
			if len(all) > 1 && len(row.Data()) > 960 || len(all) > 32 {
				t.Fatalf("%d events share %d bytes", len(all), len(row.Data()))
			}
			for after := begins - 1; after < row.Last(); after++ {
				got, err := row.After(after)
				if left := all[after-begins+1:]; err != nil || !slices.EqualFunc(got, left, bytes.Equal) {
					t.Fatalf("after %d of %d to %d: %d events, not %d, %v", after, begins, row.Last(), len(got), len(left), err)
				}
			}
		}
		for id, all := range want {
			if seen[id] != int64(len(all)) {
				t.Fatalf("rows have %d of %d events", seen[id], len(all))
			}
		}
		if len(events) > 100 && len(rows) == len(events) {
			t.Fatalf("%d events have %d rows", len(events), len(rows))
		}
	}
}

// TestLogPages: a log is read from any number on, as far as one likes.
func TestLogPages(t *testing.T) {
	t.Parallel()
	db := running(t, fresh(t))
	id, _ := has(t, db, 50)
	all, err := db.Log(t.Context(), id, 0, 1000)
	if err != nil || len(all) < 40 {
		t.Fatalf("%d events, %v", len(all), err)
	}
	for after := range len(all) + 2 {
		for _, limit := range []int{0, 1, 2, 7, 1000} {
			got, err := db.Log(t.Context(), id, int64(after), limit)
			want := all[min(after, len(all)):min(after+limit, len(all))]
			if err != nil || !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%d events after %d: %d, not %d, %v", limit, after, len(got), len(want), err)
			}
		}
	}
}

// FuzzLogRow: a row that is damaged is an error, or has other events.
func FuzzLogRow(f *testing.F) {
	id := newSession()
	for _, row := range store.LogRows([]tree.SessionID{id, id, id}, []int64{7, 8, 9}, [][]byte{[]byte("one"), []byte("two"), []byte("three")}) {
		f.Add(row.Last(), row.Data(), int64(7))
	}
	alike := bytes.Repeat([]byte("an event like all others"), 5)
	for _, row := range store.LogRows([]tree.SessionID{id, id}, []int64{7, 8}, [][]byte{alike, alike}) {
		if row.Data()[0] != 1 {
			f.Fatal("events that are alike are not packed")
		}
		f.Add(row.Last(), row.Data(), int64(6))
		f.Add(row.Last(), row.Data()[:20], int64(6))
	}
	f.Add(int64(1), []byte{0, 200, 1}, int64(0))
	f.Add(int64(1), []byte{1, 255, 255, 255, 255, 15, 1}, int64(0)) // says that it is 4 GB
	f.Add(int64(0), []byte{}, int64(-5))
	f.Fuzz(func(t *testing.T, last int64, data []byte, after int64) {
		row := store.LogRowOf(last, data)
		events, err := row.After(after)
		size := 0
		for _, e := range events {
			size += len(e)
		}
		if size > max(len(data), 4<<10) || err != nil && events != nil {
			t.Errorf("%d bytes of %d, %v", size, len(data), err)
		}
	})
}

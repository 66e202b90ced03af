package store

import (
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// FuzzStored: rows that somebody has damaged are read as what they say, or are an
// error.
func FuzzStored(f *testing.F) {
	for _, answer := range []tree.Answer{
		tree.Created{Session: tree.SessionID{1}, Root: tree.TaskID{2}}, tree.Sent{Task: tree.TaskID{1}, Run: 1, Queued: true},
		tree.Spawned{Task: tree.TaskID{1}}, tree.Branched{Task: tree.TaskID{1}},
	} {
		data, err := encodeAnswer(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(wire.EncodeEvent(&tree.Event{Seq: 1, Task: tree.TaskID{1}, Run: 1, Kind: tree.Result{}}))
	f.Add([]byte("null"))
	f.Add([]byte(`{"created":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if answer, err := decodeAnswer(data); err == nil {
			again, err := encodeAnswer(answer)
			if err != nil {
				t.Fatal(err)
			}
			if same, err := decodeAnswer(again); err != nil || same != answer {
				t.Errorf("%+v came back as %+v, %v", answer, same, err)
			}
		}
		e, err := wire.DecodeEvent(data)
		if err != nil {
			return
		}
		if h, err := head(e); err == nil && (h.Task.IsZero() || h.Started && h.Result) {
			t.Errorf("%v is %+v", e, h)
		}
	})
}

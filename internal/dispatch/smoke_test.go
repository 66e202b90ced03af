package dispatch

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/tree"
)

func TestSmoke(t *testing.T) {
	e, err := OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b, err := New(Config{Client: e.Client(), Installation: "i"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	h := Hint{Session: tree.SessionID(uuid.New()), Task: tree.TaskID(uuid.New()), Epoch: 1}
	if d, err := b.Pull(ctx, "p", "c", 4, 10*time.Millisecond); err != nil || len(d) != 0 {
		t.Fatal(d, err)
	}
	if err := b.Announce(ctx, "p", []Hint{h, h}); err != nil {
		t.Fatal(err)
	}
	d, err := b.Pull(ctx, "p", "c", 4, time.Second)
	if err != nil || len(d) != 2 || d[0].Hint != h {
		t.Fatal(d, err)
	}
	if err := b.Done(ctx, "p", d[0].ID, d[1].ID); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Backlog(ctx, "p"); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if err := b.Forget(ctx, "p", "c"); err != nil {
		t.Fatal(err)
	}
}

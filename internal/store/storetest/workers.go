package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
)

// workers: what each replica says of its workers comes together, what a dead one has said
// does not count, and one that drains does so until another process has its name.
func workers(t *testing.T, d Dialect) {
	b := setup(t, d)
	ctx := t.Context()
	began := b.clock.Now()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	beat := func(replicas ...string) {
		t.Helper()
		for _, r := range replicas {
			check(b.Beat(ctx, r, 4))
		}
	}
	come := func(replica, id string, slots int, began time.Time) {
		t.Helper()
		check(b.SaveWorkers(ctx, replica, []store.Worker{{ID: id, Pool: "p", Slots: slots, Version: "v", Started: began}}, nil))
	}
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for _, w := range must[[]store.PresentWorker](t)(b.Workers(ctx, 5*time.Second)) {
			line := fmt.Sprint(w.ID, " ", w.Running, "/", w.Slots, " at ", strings.Join(w.Replicas, ","))
			if w.Draining {
				line += " draining"
			}
			got = append(got, line)
		}
		eq(t, "the workers", strings.Join(got, "; "), strings.Join(want, "; "))
	}
	of := func(replica string) []store.Worker { return must[[]store.Worker](t)(b.WorkersOf(ctx, replica)) }
	expect()
	come("a", "worker-2", 8, began)
	expect() // nobody has heard of the replica
	beat("b")
	expect()
	beat("a", "b")
	come("a", "worker-2", 8, began) // nothing was known of the replica, and what it had said was forgotten
	come("b", "worker-2", 8, began)
	come("b", "w", 4, began)
	id, root := session(1), b.create(1, "hello")
	b.claim(id, root)
	expect("w 1/4 at b", "worker-2 0/8 at a,b")

	check(b.Drain(ctx, store.Worker{ID: "worker-2", Started: began}))
	eq(t, "whether it drains at a", of("a")[0].Draining, true)
	left := []string{"worker-2"}
	check(b.SaveWorkers(ctx, "a", nil, left))
	check(b.SaveWorkers(ctx, "b", nil, left))
	expect("w 1/4 at b") // its streams are on their way elsewhere
	beat("c")
	for _, replica := range []string{"a", "b", "c"} {
		come(replica, "worker-2", 8, began)
	}
	expect("w 1/4 at b", "worker-2 0/8 at a,b,c draining")
	eq(t, "whether it drains at c", of("c")[0].Draining, true)

	check(b.SaveWorkers(ctx, "b", nil, []string{"w"}))
	come("a", "worker-2", 2, began.Add(time.Second)) // another process
	b.restart()
	expect("worker-2 0/2 at a")
	eq(t, "whether the other process drains", of("a")[0].Draining, false)

	b.clock.advance(6 * time.Second)
	beat("b", "c")
	expect("worker-2 0/8 at b,c draining")
	b.clock.advance(2 * time.Hour)
	beat("a")
	expect()
	beat("b", "c")
	expect() // what they had said is forgotten with them
	come("b", "worker-2", 8, began)
	expect("worker-2 0/8 at b draining")
	b.clock.advance(24 * time.Hour)
	beat("b")
	beat("b") // nothing was known of the replica itself
	come("b", "worker-2", 8, began)
	expect("worker-2 0/8 at b")
}

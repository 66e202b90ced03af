package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
)

// crew are the workers of a few replicas.
type crew struct{ *bundle }

func (c crew) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// beat deletes silent replicas, and records heartbeats of replicas.
func (c crew) beat(replicas ...string) {
	c.t.Helper()
	for _, r := range replicas {
		c.check(c.ForgetSilentReplicas(c.t.Context()))
		_, err := c.Heartbeat(c.t.Context(), r, 4, time.Minute)
		c.check(err)
	}
}

// come records that a worker has streams to a replica; left that it has none any more.
func (c crew) come(replica, id string, slots int, began time.Time) {
	c.t.Helper()
	w := store.Worker{ID: id, Pool: "p", Slots: slots, Version: "v", Started: began}
	c.check(c.SaveWorkers(c.t.Context(), replica, []store.Worker{w}, nil))
}

func (c crew) left(replica, id string) {
	c.t.Helper()
	c.check(c.SaveWorkers(c.t.Context(), replica, nil, []string{id}))
}

func (c crew) expect(want ...string) {
	c.t.Helper()
	var got []string
	for _, w := range must[[]store.PresentWorker](c.t)(c.Workers(c.t.Context(), 5*time.Second)) {
		line := fmt.Sprint(w.ID, " ", w.Running, "/", w.Slots, " at ", strings.Join(w.Replicas, ","))
		if w.Draining {
			line += " draining"
		}
		got = append(got, line)
	}
	eq(c.t, "the workers", strings.Join(got, "; "), strings.Join(want, "; "))
}

// drainsAt reports whether the only worker of a replica is draining.
func (c crew) drainsAt(replica string) bool {
	c.t.Helper()
	return must[[]store.Worker](c.t)(c.WorkersOf(c.t.Context(), replica))[0].Draining
}

// workers: what each replica records of its workers is joined, and what a dead replica recorded
// does not count.
func workers(t *testing.T, d Dialect) {
	c := crew{setup(t, d)}
	began := c.clock.Now()
	c.expect()
	c.come("a", "worker-2", 8, began)
	c.expect() // nobody has heard of the replica
	c.beat("b")
	c.expect()
	c.beat("a", "b")
	c.come("a", "worker-2", 8, began) // nothing was known of the replica, and what it had said was forgotten
	c.come("b", "worker-2", 8, began)
	c.come("b", "w", 4, began)
	id, root := session(1), c.create(1, "hello")
	c.claim(id, root)
	c.expect("w 1/4 at b", "worker-2 0/8 at a,b")
	c.left("b", "w")
	c.expect("worker-2 0/8 at a,b")
	c.clock.advance(6 * time.Second)
	c.beat("b")
	c.expect("worker-2 0/8 at b")
	c.clock.advance(2 * time.Hour)
	c.beat("a")
	c.expect()
	c.beat("b")
	c.expect() // what they had said is forgotten with them
}

// drains: a draining worker is draining at each replica that it connects to, for a day. Another
// process with its id is not.
func drains(t *testing.T, d Dialect) {
	c := crew{setup(t, d)}
	began := c.clock.Now()
	c.beat("a", "b", "c")
	c.come("a", "w", 8, began)
	c.come("b", "w", 8, began)
	c.expect("w 0/8 at a,b")
	c.check(c.Drain(t.Context(), store.Worker{ID: "w", Started: began}))
	c.expect("w 0/8 at a,b draining")
	eq(t, "whether it drains at a", c.drainsAt("a"), true)
	c.left("a", "w")
	c.left("b", "w")
	c.expect() // its streams are on their way elsewhere
	c.come("c", "w", 8, began)
	c.expect("w 0/8 at c draining")
	eq(t, "whether it drains at c", c.drainsAt("c"), true)

	c.come("a", "w", 2, began.Add(time.Second)) // another process
	c.restart()
	c.expect("w 0/2 at a")
	eq(t, "whether the other process drains", c.drainsAt("a"), false)
	c.left("a", "w")

	c.clock.advance(2 * time.Hour)
	c.beat("b")
	c.beat("b") // nothing was known of the replica itself
	c.come("b", "w", 8, began)
	c.expect("w 0/8 at b draining")
	c.clock.advance(24 * time.Hour)
	c.beat("b")
	c.beat("b")
	c.come("b", "w", 8, began)
	c.expect("w 0/8 at b")
}

// replicasSetBack: if the clock is set back, live replicas keep their attempts, and dead ones are
// found as soon as otherwise. Announcements are not in force for longer than intended.
func replicasSetBack(t *testing.T, d Dialect) {
	for name, lives := range map[string]bool{"alive": true, "dead": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const silent = 5 * time.Second
			b := setup(t, d)
			c := crew{b}
			b.claim(session(1), b.create(1, "hello"))
			b.create(2, "hello")
			eq(t, "how many are announced", len(b.take(10)), 1)
			c.beat(replica, replica, "replica-2")
			c.come(replica, "w", 4, b.clock.Now())
			b.clock.advance(-time.Hour)
			b.restart()
			for _, gone := range []bool{false, !lives} {
				if lives {
					c.beat(replica)
				}
				c.beat("replica-2")
				want, lost := &store.Capacity{Replicas: 2, Slots: 8}, 0
				if gone {
					want, lost = &store.Capacity{Replicas: 1, Slots: 4}, 1
				}
				eq(t, "what there is", *must[*store.Capacity](t)(b.Capacity(t.Context(), silent)), *want)
				eq(t, "how many attempts are lost", len(must[[]store.Attempt](t)(b.LostAttempts(t.Context(), silent))), lost)
				eq(t, "how many have the worker", len(must[[]store.PresentWorker](t)(b.Workers(t.Context(), silent))), 1-lost)
				b.clock.advance(silent)
			}
			again := b.take(10)
			eq(t, "how many are announced again", len(again), 1)
			for _, r := range again {
				eq(t, "whether it is a repeat", r.Again, !b.Exclusive()) // one that is alone has stored no announcement
			}
			eq(t, "how many are announced at once", len(b.take(10)), 0)
		})
	}
}

package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/chaos"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
)

// linked is a new database behind a link.
func linked(t *testing.T, server *pgtest.Server) (link *chaos.Link, url string) {
	t.Helper()
	link, err := chaos.OpenLink(t.Context(), server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link, strings.Replace(server.Database(t), server.Addr(), link.Addr(), 1)
}

// TestEventsAreNotDatedBack: after an answer that was long on its way, an event still has
// the time at which it happens.
func TestEventsAreNotDatedBack(t *testing.T) {
	t.Parallel()
	const long = time.Second
	link, url := linked(t, pgtest.Start(t))
	db := replicas(t, url, 1)[0]
	id := newSession()
	if _, err := db.Update(t.Context(), id, open(id)); err != nil {
		t.Fatal(err)
	}
	link.Set(chaos.Conditions{Delay: long})
	for range 2 { // what the time is, is not asked each time
		if _, err := db.Update(t.Context(), id, spawn("late")); err != nil {
			t.Fatal(err)
		}
	}
	link.Set(chaos.Conditions{})
	began := time.Now()
	if _, err := db.Update(t.Context(), id, spawn("now")); err != nil {
		t.Fatal(err)
	}
	tasks, err := db.Tree(t.Context(), id)
	if err != nil || len(tasks) != 4 {
		t.Fatalf("there are %d tasks (%v)", len(tasks), err)
	}
	if late := began.Sub(tasks[3].AcceptedAt); late > long/2 {
		t.Errorf("what happened is dated back by %s", late)
	}
}

// beatsInSilence: a replica says that it is alive also when all its connections have fallen
// silent, and learns what there is.
func beatsInSilence(t *testing.T, server *pgtest.Server) {
	link, url := linked(t, server)
	db := replicas(t, url, 1)[0]
	for range 2 {
		there, err := db.Heartbeat(t.Context(), "replica-0", 7, time.Minute)
		if err != nil || *there != (store.Capacity{Replicas: 1, Slots: 7}) {
			t.Errorf("a heartbeat was answered %+v, %v", there, err)
		}
		link.Silence()
	}
}

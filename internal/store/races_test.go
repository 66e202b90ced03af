package store_test

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// race is commands that come at once. Whichever is decided first, the others have
// to be answered as those that came after it.
type race struct {
	sides  []string
	ground ground
	rivals []rival
	of     func(*racer) tree.TaskID // whose state tells what has come of it
	orders []order                  // of two sides: [i] if side i was first
}

// order is what the sides are told, and the state of the task then.
type order struct {
	told  []string
	state tree.State
}

const (
	stale    = "the attempt is not the current one"
	notReady = "the run does not wait for a worker under this epoch"
	ended    = "the run has ended"
)

var races = []race{
	{[]string{"cancel", "end"}, alone, []rival{cancelLead, endLead}, lead, []order{
		{[]string{"cancelled 1", stale}, tree.StateCancelled},
		{[]string{"cancelled 0", "ended completed"}, tree.StateCompleted},
	}},
	{[]string{"cancel", "cancel"}, alone, []rival{cancelLead, cancelLead}, lead, []order{
		{[]string{"cancelled 1", "cancelled 0"}, tree.StateCancelled},
		{[]string{"cancelled 0", "cancelled 1"}, tree.StateCancelled},
	}},
	{[]string{"cancel", "park"}, calling, []rival{cancelLead, parkLead}, lead, []order{
		{[]string{"cancelled 2", stale}, tree.StateCancelled},
		{[]string{"cancelled 2", "parked"}, tree.StateCancelled},
	}},
	{[]string{"cancel", "background"}, calling, []rival{cancelChild, backgroundChild}, child, []order{
		{[]string{"cancelled 1", ended}, tree.StateCancelled},
		{[]string{"cancelled 1", "done"}, tree.StateCancelled},
	}},
	{[]string{"cancel", "send"}, alone, []rival{cancelLead, sendLead}, lead, []order{
		{[]string{"cancelled 1", "began run 2"}, tree.StatePending},
		{[]string{"cancelled 1", "queued for run 1"}, tree.StateCancelled},
	}},
	{[]string{"cancel", "resume"}, launched, []rival{cancelChild, resumeChild}, child, []order{
		{[]string{"cancelled 1", "stored"}, tree.StatePending},
		{[]string{"cancelled 1", "stored"}, tree.StateCancelled},
	}},
	{[]string{"cancel", "spawn by its worker"}, asking, []rival{cancelLead, spawnByWorker}, lead, []order{
		{[]string{"cancelled 1", stale}, tree.StateCancelled},
		{[]string{"cancelled 2", "stored"}, tree.StateCancelled},
	}},
	{[]string{"cancel", "spawn by a client"}, alone, []rival{cancelLead, spawnByClient}, lead, []order{
		{[]string{"cancelled 1", "spawned"}, tree.StateCancelled},
		{[]string{"cancelled 2", "spawned"}, tree.StateCancelled},
	}},
	{[]string{"cancel", "claim"}, pending, []rival{cancelLead, claimLead(1)}, lead, []order{
		{[]string{"cancelled 1", notReady}, tree.StateCancelled},
		{[]string{"cancelled 1", "claimed"}, tree.StateCancelled},
	}},
	{[]string{"claim", "claim"}, pending, []rival{claimLead(1), claimLead(2)}, lead, []order{
		{[]string{"claimed", notReady}, tree.StateRunning},
		{[]string{notReady, "claimed"}, tree.StateRunning},
	}},
	{[]string{"end", "background"}, calling, []rival{endChild, backgroundChild}, child, []order{
		{[]string{"ended completed", ended}, tree.StateCompleted},
		{[]string{"ended completed", "done"}, tree.StateCompleted},
	}},
	{[]string{"end of the child", "park"}, calling, []rival{endChild, parkLead}, lead, []order{
		{[]string{"ended completed", "stored, go on"}, tree.StateRunning},
		{[]string{"ended completed", "parked"}, tree.StatePending},
	}},
	{[]string{"end", "send"}, alone, []rival{endLead, sendLead}, lead, []order{
		{[]string{"ended completed", "began run 2"}, tree.StatePending},
		{[]string{"stored, go on", "queued for run 1"}, tree.StateRunning},
	}},
	{[]string{"end", "resume"}, launched, []rival{endChild, resumeChild}, child, []order{
		{[]string{"ended completed", "stored"}, tree.StatePending},
		{[]string{"stored, go on", "stored"}, tree.StateRunning},
	}},
	{[]string{"end", "spawn by a client"}, alone, []rival{endLead, spawnByClient}, lead, []order{
		{[]string{"ended completed", "spawned"}, tree.StateCompleted},
		{[]string{"parked", "spawned"}, tree.StateWaiting},
	}},
	{[]string{"end", "loss of the worker"}, alone, []rival{endLead, loseLead}, lead, []order{
		{[]string{"ended completed", stale}, tree.StateCompleted},
		{[]string{stale, "done"}, tree.StatePending},
	}},
	{[]string{"park", "background"}, calling, []rival{parkLead, backgroundChild}, lead, []order{
		{[]string{"parked", "done"}, tree.StatePending},
		{[]string{"stored, go on", "done"}, tree.StateRunning},
	}},
	{[]string{"park", "loss of the worker"}, calling, []rival{parkLead, loseLead}, lead, []order{
		{[]string{"parked", stale}, tree.StateWaiting},
		{[]string{stale, "done"}, tree.StatePending},
	}},
}

// TestRaces: of commands that come at once one is decided first, and the others are
// told so; no order of them leaves a run with two ends, or a tree that breaks a
// rule or can't be ended.
func TestRaces(t *testing.T) {
	t.Parallel()
	n := 5000
	if asked := os.Getenv("COPPICE_RACES"); asked != "" {
		var err error
		if n, err = strconv.Atoi(asked); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		runRaces(t, []*store.Store{running(t, fresh(t))}, n/2)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		runRaces(t, replicas(t, pgtest.Start(t).Database(t), 2), n/2)
	})
}

// Races are run in sessions of so many, so many sessions at once.
const (
	racesOfSession = 40
	sessionsAtOnce = 8
)

// runRaces runs n races, each as often as any other, and counts who was first.
func runRaces(t *testing.T, dbs []*store.Store, n int) {
	all := slices.Concat(races, melees(t, dbs))
	begin := time.Now()
	seen := make([][]int, len(all)) // by race and order
	for i, r := range all {
		seen[i] = make([]int, len(r.orders))
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	starts := make(chan int)
	for range sessionsAtOnce {
		wg.Go(func() {
			for first := range starts {
				found := openField(t, dbs).races(all, first, min(racesOfSession, n-first))
				mu.Lock()
				for i, which := range found {
					seen[(first+i)%len(all)][which]++
				}
				mu.Unlock()
			}
		})
	}
	for first := 0; first < n && !t.Failed(); first += racesOfSession {
		starts <- first
	}
	close(starts)
	wg.Wait()
	total, three, orders := 0, 0, 0
	for i, r := range all {
		for _, times := range seen[i] {
			total += times
			if len(r.sides) == 3 && times > 0 {
				three, orders = three+times, orders+1
			}
		}
		if len(r.sides) == 2 {
			t.Logf("%s %d : %d %s", r.sides[0], seen[i][0], seen[i][1], r.sides[1])
		}
	}
	t.Logf("three at once: %d, with %d outcomes", three, orders)
	t.Logf("%d races in %s", total, time.Since(begin).Round(time.Millisecond))
	if total != n {
		t.Errorf("%d races were run, not %d", total, n)
	}
}

// races runs races in the field's session, all of them at once, and gives which
// order each has had.
func (f *field) races(all []race, first, n int) []int {
	told, of := make([][]string, n), make([]tree.TaskID, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			r := all[(first+i)%len(all)]
			w := f.racer(r.ground)
			told[i], of[i] = f.atOnce(w.commands(r.rivals)), r.of(w)
		})
	}
	wg.Wait()
	states := f.sound()
	found := make([]int, 0, n)
	for i := range n {
		r := all[(first+i)%len(all)]
		had := order{told[i], states[of[i]]}
		which := slices.IndexFunc(r.orders, func(o order) bool { return reflect.DeepEqual(o, had) })
		if which < 0 {
			f.t.Errorf("%s: nobody was first, the sides were told %q and the task is %s", strings.Join(r.sides, " against "), had.told, had.state)
			continue
		}
		found = append(found, which)
	}
	f.end()
	return found
}

// melees are all races of three of six commands about a task and its child. What
// has to come of an order is found by giving the commands one after another.
func melees(t *testing.T, dbs []*store.Store) []race {
	six := []struct {
		side  string
		rival rival
	}{
		{"cancel", cancelChild}, {"end", endChild}, {"park", parkLead},
		{"send", sendChild}, {"background", backgroundChild}, {"spawn", spawnBelowChild},
	}
	var made []race
	for a := range six {
		for b := range a {
			for c := range b {
				made = append(made, race{
					[]string{six[a].side, six[b].side, six[c].side}, calling,
					[]rival{six[a].rival, six[b].rival, six[c].rival}, child, nil,
				})
			}
		}
	}
	f := openField(t, dbs)
	for i := range made {
		r := &made[i]
		for _, turn := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			w := f.racer(r.ground)
			cmds, told := w.commands(r.rivals), make([]string, 3)
			for _, side := range turn {
				told[side] = word(dbs[0].Update(t.Context(), f.session, cmds[side]))
			}
			after := order{told, f.task(r.of(w)).State}
			if !slices.ContainsFunc(r.orders, func(o order) bool { return reflect.DeepEqual(o, after) }) {
				r.orders = append(r.orders, after)
			}
		}
	}
	f.sound()
	f.end()
	return made
}

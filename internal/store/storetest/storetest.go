// Package storetest is the contract of a store, whatever its database. Each dialect runs it.
package storetest

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// Dialect is a kind of database to run the suite on.
type Dialect struct {
	// Fresh names a new, empty database.
	Fresh func(t *testing.T) store.Config
	// Break makes the database refuse every event that is written of sessions, until mend is
	// called.
	Break func(t *testing.T, c store.Config, of ...tree.SessionID) (mend func())
	// Opened is called with each store that was opened; nil: there is nothing to do.
	Opened func(*store.Store)
}

// Run runs the suite.
func (d Dialect) Run(t *testing.T) {
	for name, test := range map[string]func(*testing.T, Dialect){
		"GroupCommit": groupCommit, "BatchBound": batchBound, "Refusals": refusals,
		"SubmitOrder": submitOrder, "GapFree": gapFree, "Stopped": stopped,
		"FailedTransaction": failedTransaction, "Panic": panics,
		"Once": once, "OnceInOneBatch": onceInOneBatch, "OnceAfterRefusal": onceAfterRefusal,
		"Transcript": transcript, "TranscriptPages": transcriptPages, "ClaimAtHand": claimAtHand, "WakingAtHand": wakingAtHand, "News": news, "Outcome": outcome, "OutcomesStay": outcomesStay, "LargeTexts": largeTexts,
		"ReadyOrder": readyOrder, "ReadyTurns": readyTurns, "ReadyBranches": readyBranches, "ReadyTrade": readyTrade, "ReadyTradeReleased": readyTradeReleased, "ReadyBeside": readyBeside, "ReadyCap": readyCap, "ReadyBudget": readyBudget, "ReadyFlood": readyFlood, "ReadyAhead": readyAhead, "ReadyAheadCaps": readyAheadCaps, "Taking": taking, "TakingNext": takingNext, "TakingOther": takingOther, "Standby": standby, "StandbyOrder": standbyOrder, "StandbyGives": standbyGives,
		"ReadyLease": readyLease, "ReadyReleased": readyReleased, "ReadyRestart": readyRestart, "Room": room,
		"Work": work, "WorkUnderCaps": workUnderCaps,
		"ReadyTenants": readyTenants, "ReadyShare": readyShare, "ReadyCaps": readyCaps, "ReadyCapsLost": readyCapsLost,
		"Restart": restart, "Pages": pages, "Tenants": tenants, "There": there, "Idle": idle,
		"Timers": timers, "Attempts": attempts, "Claims": claims, "SettledCalls": settledCalls, "Workers": workers, "Drains": drains, "Definitions": definitions, "TenantAgents": tenantAgents, "AgentsThen": agentsThen, "Pins": pins, "Bytes": anyBytes,
		"Histories": histories, "Callbacks": callbacks, "CallbacksOfApprovals": callbacksOfApprovals, "CallbackHosts": callbackHosts, "CallbackRound": callbackRound, "Branches": branches, "Summaries": summaries, "Beginnings": beginnings,
		"Approvals": approvals, "Shells": shells, "ShellCaps": shellCaps,
		"Openings": openings, "Looks": looks, "PromptOfMany": promptOfMany,
		"Inbox": inbox, "TracedLater": tracedLater, "ClockSetBack": clockSetBack, "ReplicasSetBack": replicasSetBack, "ClockAhead": clockAhead, "Output": readOutput, "Filter": filter, "Purge": purge, "PurgeSteps": purgeSteps, "Old": old,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// bundle is a store on a database of its own, with a clock that is set by hand and with sequential
// ids.
type bundle struct {
	*store.Store
	t       *testing.T
	dialect Dialect
	config  store.Config
	clock   *clock
	stop    func() // nil while the store does not run

	mu      sync.Mutex
	commits []store.Commit
	ends    map[tree.TaskID]*store.RunEnd // the last of each task
}

// setup opens a fresh store that commits.
func setup(t *testing.T, d Dialect) *bundle {
	b := d.opened(t, d.Fresh(t))
	b.run()
	return b
}

// opened opens a store that does not commit before run is called.
func (d Dialect) opened(t *testing.T, c store.Config) *bundle {
	b := &bundle{t: t, dialect: d, ends: map[tree.TaskID]*store.RunEnd{}, clock: &clock{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}}
	c.Clock, c.Replica = b.clock.Now, replica
	if c.NewID == nil {
		c.NewID = sequentialIDs()
	}
	c.OnCommit = func(c store.Commit) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.commits = append(b.commits, c)
		for _, s := range c.Sessions {
			for _, task := range s.Ended {
				b.ends[task] = s.EndOf(task)
			}
		}
	}
	b.config = c
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *bundle) open() {
	b.t.Helper()
	db, err := store.Open(b.t.Context(), b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Store = db
	if b.dialect.Opened != nil {
		b.dialect.Opened(db)
	}
}

// run starts the committer.
func (b *bundle) run() {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx); err != nil {
			b.t.Error(err)
		}
	})
	b.stop = func() {
		cancel()
		running.Wait()
		b.stop = nil
	}
}

func (b *bundle) close() {
	if b.stop != nil {
		b.stop()
	}
	if err := b.Close(); err != nil {
		b.t.Error(err)
	}
}

// restart closes the store and opens it again, as a new process would.
func (b *bundle) restart() {
	b.t.Helper()
	b.close()
	b.open()
	b.run()
}

// committed gives the commits that OnCommit got so far.
func (b *bundle) committed() []store.Commit {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commits
}

// must carries out a command that has to be accepted.
func (b *bundle) must(id tree.SessionID, cmd tree.Command) tree.Answer {
	b.t.Helper()
	answer, err := b.Update(b.t.Context(), id, cmd)
	if err != nil {
		b.t.Fatalf("%T: %v", cmd, err)
	}
	return answer
}

// clock is a clock that is set by hand.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// sequentialIDs makes ids that sort by age, the same ones each time.
func sequentialIDs() func() [16]byte {
	var mu sync.Mutex
	var n uint64
	return func() [16]byte {
		mu.Lock()
		defer mu.Unlock()
		n++
		return number(n)
	}
}

func number(n uint64) (id [16]byte) {
	id[6], id[8] = 0x70, 0x80
	binary.BigEndian.PutUint32(id[12:], uint32(n))
	return id
}

// eq compares the actual with the expected value.
func eq[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, not %v", what, got, want)
	}
}

// must gives a value that has to exist.
func must[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

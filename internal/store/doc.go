// Package store keeps the truth: sessions, their trees, transcripts and events,
// in SQL.
//
// Update is the only way to change a session. Commands queue to a committer, those
// of one session always to the same; it takes what has queued meanwhile, for many
// sessions, and makes one transaction of it: it reads what the commands touch, lets
// each be decided in the order of arrival (a refusal never disturbs the others),
// writes with one statement a table, commits, and answers. So what was answered is
// durable, a session's events have no gap, nothing is ever decided upon a row that
// somebody else changes, and a commit is shared by all that wait for one. If the
// database refuses a batch, its commands are committed one by one.
//
// A committer holds what its last commits have left of their sessions, and decides the
// next commands upon it. A SQLite file belongs to one process, which locks it, and has one
// committer: what that holds is right.
//
// A PostgreSQL database may be open in several replicas, each with a committer for every two
// processors. A transaction begins by locking its sessions, in the order of their ids;
// everything of a session is written under that lock, and each commit gives it another version.
// Most transactions take one round trip, decided before it: begin, lock, compare the
// versions, write, commit. If another replica was there first, the transaction fails at
// the comparison, and is made again in two: begin, lock, the time, and what the commands
// will need as far as can be guessed; and what they changed, with COMMIT. What the guess
// has missed is read between them. The picker of ready runs waits for nobody but another picker, and has a
// transaction of its own. When the connection is lost before COMMIT the batch is done
// again; when it is lost at COMMIT, a row that bears the transaction's id declares it
// void, or says that it was committed. So a restart of the server is a delay, unless it takes too long.
//
// A session that is opened with an id of its own is not looked for before: if it is there
// after all, its row is refused, and the transaction is made again with a look. Who opens
// it is answered with what the commit knows of it.
//
// What a worker needs of the conversation of a run that it has claimed was most often
// written a moment before: a committer remembers it (beginning.go for a new child, waking.go
// for a parent). A run that becomes ready as another is given back may be claimed with the
// same transaction (taking.go), and so may one of another session that has waited for a slot;
// for a slot that waits itself, what becomes ready is claimed at once (standby.go).
// Who waits for a run is told how it has ended with what the commit knows (look.go, prompts.go).
//
// Reads go past the committers and see every commit that was answered before they
// began. What one look reads is of one state; a transcript takes several, since what a
// message tells of was there before it and never changes. Looks at a few rows that find
// others under way wait for them and go together, in one round trip (glance.go).
//
// # Files
//
// The way of a command into the database:
//
//	store.go        what a store is made of, and what it tells of its commits; Open
//	pending.go      Update: a command that waits for its commit, and the key that makes it safe to repeat
//	committer.go    makes one transaction after another of what has queued
//	commit.go       one transaction: read, decide, write, answer
//	locking.go      how the sessions of a transaction are locked
//	load.go         reads what commands need of their sessions
//	save.go         writes what commands have changed
//	repeat.go       requests that were answered before
//	opened.go       the session as the command that opened it has left it
//	purge.go        removes the rows of sessions that were deleted
//
// What runs next, and with whom:
//
//	ready.go        runs that are ready, timers that are due, attempts that were lost
//	queues.go       the queues of ready runs: one a tenant and priority
//	pick.go         chooses among them what is announced, within caps and in turn
//	order.go        which runs of a session go before others of it
//	ahead.go        how many runs a commit may announce without such a choice
//	taking.go       claims the next run in the transaction that gives a run back
//	standby.go      claims a run for a slot that waits, in the transaction that makes it ready
//	workers.go      the workers of all replicas
//	work.go         what there is to do, and what is being done, in numbers
//
// Reading:
//
//	read.go         queries, and sessions and tasks by them
//	page.go         pages of lists, and their tokens
//	scan.go         bounds what long lists may take
//	look.go         how far a task has come, and how it has ended, for who waits
//	transcript.go   messages as a model or a client sees them
//	lineage.go      what comes before a task's own messages
//	outcome.go      how runs have ended
//	ended.go        where that is stored
//	output.go       what there is to read of a task
//	log.go          events; those committed together share a row
//	agents.go       definitions that tenants put
//	approval.go     approvals
//	callback.go     callbacks that are due
//	diagnose.go     everything of a session, for the rules to be held against
//
// Speed: what is remembered or guessed so that it need not be read. Nothing depends on it:
//
//	known.go        sessions as the last commits have left them
//	foresight.go    what a batch will need, so that it is read in one round trip
//	beginning.go    how conversations of new tasks begin
//	waking.go       how conversations of parents go on that wake
//	prompts.go      what runs were asked
//	definitions.go  definitions of agents, by version
//	near.go         what messages tell of, read with them
//	glance.go       looks of several callers that go together
//	change.go       statements that write only what changes of a row
//	fresh.go        statements that write only what a new row has
//
// Rows, and the two dialects:
//
//	rows.go         tables, and their rows as Go values
//	pack.go         large texts are packed
//	dialect.go      what a database is, and the statements of sql/
//	name.go         which database a name stands for
//	sqlite.go       a SQLite file
//	schema.go       its schema: a new one at once, migrations of one that is there
//	lock.go         the lock that one process has on it
//	postgres.go     a PostgreSQL database
//	pgwriter.go     its transactions
//	pgtable.go      its statements that write many rows
//	pgcolumn.go     columns of such rows as arrays
//	pgtypes.go      how values are sent
//	silence.go      a server that says nothing any more
//	dial.go         connections that are given up in time
//	dial_linux.go   by the system
//	dial_other.go   where the system can't
package store

// Package store keeps the durable state in SQL: sessions, their trees, transcripts and
// events.
//
// # Writing
//
// Update is the only way to change a session. Commands queue to a committer; the commands
// of one session always queue to the same one. A committer takes what has queued, for many
// sessions, and makes one transaction of it (a batch). It reads the rows that the commands
// need, decides the commands in the order of arrival, writes with one statement per table,
// commits, and answers the callers. A refused command does not affect the others.
//
// This gives four guarantees:
//
//   - What was answered is durable.
//   - The events of a session have no gap.
//   - No command is decided on a row that somebody else has changed.
//   - All commands that wait for a commit share one.
//
// With Config.EarlyRuns, a worker of this process is an exception to the first one: the answer that
// gives it another run precedes the sync. If the machine fails then, the worker is lost too, and
// nobody else has heard of the commit.
//
// If the database refuses a batch, its commands are committed one by one.
//
// A committer caches the state of the sessions of its last commits, and decides the next
// commands on it. A SQLite file is locked by one process and has one committer, so the
// cache is always right there.
//
// # PostgreSQL
//
// Several replicas may have the same PostgreSQL database open. Each has one committer per
// two processors. A transaction begins by locking its sessions, in the order of their ids.
// All rows of a session are written under that lock, and each commit gives the session a new
// version.
//
// Most transactions are decided before they are sent and take one round trip: begin, lock,
// compare the versions, write, commit. If another replica has committed in between, the
// comparison fails the transaction, and it is made again in two round trips:
//
//  1. begin, lock, the time, and the rows that the commands will need, as far as they can be
//     predicted (predict.go). Rows that the prediction missed take further round trips.
//  2. the changes and COMMIT.
//
// The picker of ready runs has a transaction of its own and waits only for another picker.
//
// When the connection is lost before COMMIT, the batch is done again. When it is lost at
// COMMIT, a row with the transaction's id tells whether it was committed, or voids it. So a
// restart of the server is a delay, unless it takes too long.
//
// A session that is opened with a new id is not looked up first. If it exists after all, the
// insert is refused, and the transaction is made again with a lookup. The answer to the
// opening command comes from the commit itself.
//
// # Claims
//
// A worker that claims a run needs its conversation, which most often was written a moment
// before. A committer caches that: first_message_cache.go for a new child, tail_cache.go for a
// parent that wakes.
//
// There are three ways to claim a run without a hint. When a worker gives its run back, the same
// transaction may claim a run that becomes ready with it, or a run of another session that has
// waited for a slot (claim_next.go). If a slot stands by, a run that becomes ready is claimed
// for it at once (standby.go).
//
// A claim does not change the row of its task: it is stored with the attempt, and statements that
// read tasks join it (claims.go).
//
// Callers that wait for the end of a run get it from what the commit knows (task_status.go,
// prompt_cache.go).
//
// # Reading
//
// Reads go past the committers and see every commit that was answered before they began. One
// read sees one state of the database. A transcript takes several reads, which is safe: what a
// message refers to was stored before it and never changes. Reads of a few rows that find
// others in flight wait for them and share one round trip (coalesce.go).
//
// # Files
//
// The way of a command into the database:
//
//	store.go          Store and its Config, what it reports of its commits; Open
//	pending.go        Update: a command that waits for its commit, and its idempotency key
//	committer.go      makes one transaction after another of the queued commands
//	early.go          runs that begin before their claims are durable
//	commit.go         one transaction: read, decide, write, answer
//	locking.go        how the sessions of a transaction are locked
//	load.go           reads what commands need of their sessions
//	save.go           writes what commands have changed
//	ids.go            new ids, in the order of the decisions
//	idempotency.go    answers of earlier requests with a key
//	open_session.go   the session as the command that opened it has left it
//	purge.go          removes the rows of deleted sessions
//
// What runs next, and on which worker:
//
//	ready.go            ready runs, due timers, lost attempts
//	queues.go           the queues of ready runs: one per tenant and priority
//	pick.go             picks the runs to announce, within caps and fairly
//	precedence.go       which runs of a session go before others of it
//	mirror.go           the ready runs in memory, while this replica is the only one
//	mirror_pick.go      picks from there
//	unlisted.go         ready runs without a row, which are only there
//	announce_window.go  how many runs a commit may announce without the picker
//	claim_next.go       claims the next run in the transaction that gives a run back
//	standby.go          claims a run for a standby slot, in the transaction that makes it ready
//	workers.go          the workers of all replicas
//	work.go             how much work is waiting and running
//
// Reading:
//
//	read.go         queries, and the sessions and tasks read with them
//	page.go         pages of lists, and page tokens
//	scan_limit.go   limits the cost of long lists
//	task_status.go  how far a task has come and how it has ended, for callers that wait
//	transcript.go   messages as a model or a client sees them
//	lineage.go      what comes before a task's own messages
//	outcome.go      how runs have ended
//	ended_runs.go   where the ends of runs are stored
//	claims.go       where claims are stored
//	settled.go      what closes the calls that wait for a run
//	output.go       the readable output of a task
//	log.go          events; events that are committed together share a row
//	agents.go       definitions that tenants put
//	approval.go     approvals
//	callback.go     callbacks that are due
//	diagnose.go     all rows of a session, to be checked against the rules
//
// Speed: caches and predictions that avoid reads. Correctness does not depend on them:
//
//	session_cache.go        sessions as the last commits have left them
//	clock.go                the database's time and the fair queue's virtual time, without a read
//	predict.go              predicts what a batch needs, to read it in one round trip
//	first_message_cache.go  the first messages of new tasks
//	tail_cache.go           the last messages of parents that may wake soon
//	prompt_cache.go         the prompts of runs
//	definition_cache.go     definitions of agents, by version
//	outcome_cache.go        the outcomes that messages refer to, read together with them
//	coalesce.go             joins reads of several callers into one round trip
//	update.go               statements that write only the changed columns of a row
//	insert.go               statements that write only the non-empty columns of a new row
//
// Rows, and the two dialects:
//
//	rows.go           tables, and their rows as Go values
//	pack.go           compresses large texts
//	dialect.go        the interface of a database, and the statements of sql/
//	database_name.go  which database a name stands for
//	sqlite.go         a SQLite file
//	sqlite_read.go    what reads it while another connection writes
//	sqlite_log.go     its write-ahead log, lengthened in advance
//	sync_linux.go     with fdatasync
//	sync_other.go     with fsync
//	schema.go         its schema: created at once for a new file, migrated for an existing one
//	unusable.go       why it cannot be used: damaged, or of another program
//	lock.go           the lock that one process has on it
//	postgres.go       a PostgreSQL database
//	pgwriter.go       its transactions
//	pgtable.go        its statements that write many rows
//	pgcolumn.go       columns of such rows as arrays
//	pgshared.go       columns that are the same in all rows are sent once
//	pgtypes.go        how values are encoded
//	unreachable.go    how it is told that it does not respond
//	round_trip.go     a round trip on a pooled connection, with a timeout
//	dial.go           connections that are given up in time
//	dial_linux.go     with TCP_USER_TIMEOUT
//	dial_other.go     where the system has none
package store

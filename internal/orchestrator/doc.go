// Package orchestrator is the service over store and dispatch. It answers clients, serves the
// streams of workers, and runs the loops of a replica: it announces ready runs, sweeps for what
// a lost message would have reported, and feeds watchers.
//
// A replica holds nothing that another replica could not take over. In memory it keeps only who
// is connected to it now: watchers, with the last events of the sessions they watch (tail.go),
// and the streams of attempts. It also caches what is stored: announced runs (backlog.go) and
// definitions of agents (agents.go). It reads everything else from the store when it needs it.
//
// # Files
//
// The replica:
//
//	service.go          the parts of a replica, and its loops
//	sweep.go            finds what a lost hint, timer or replica would have reported
//	contact.go          how long the replica has been in contact with the database
//	nudge.go            tells other replicas what was committed, and listens to them
//	metrics.go          records metrics
//
// Calls of clients:
//
//	sessions.go         opens sessions, sends messages, starts and ends tasks
//	read.go             reads sessions, tasks and transcripts
//	import.go           sessions that begin with an imported conversation
//	branches.go         branches
//	inbox.go            the inbox of a task
//	lifecycle.go        changes, closes and deletes sessions; deletes them when they are old
//	commands.go         moves commands of a run to the background
//	approvals.go        approvals
//	definitions.go      lists, reads and puts definitions of agents
//	agents.go           caches definitions, and resolves the agent of a child
//	callbacks.go        calls URLs at the end of a run, or for an approval
//	callback_body.go    the bodies of these calls
//
// Watching a session:
//
//	hub.go              notifies the observers of a session
//	wait.go             waits for the end of a run
//	watch.go            streams the events of a session
//	tail.go             reads the log of a session once for all its watchers here
//	tails.go            the tails of all watched sessions
//	tail_feed.go        passes commits to a tail
//	watch_event.go      events as they are read from the store
//	relay.go            sends text in progress to other replicas
//	interests.go        tells other replicas which sessions' text is watched here
//
// The stream of a slot:
//
//	work.go             serves the stream
//	claim.go            answers claims and reattachments
//	answer.go           answers requests in order
//	next_run.go         how a slot gets its next run
//	slot_state.go       the lease on a stream, and the worker of the stream
//	lease.go            an attempt, from its grant to its end
//	leases.go           all attempts of this replica
//	liveness.go         whether the worker of a broken stream is dead
//	worker_registry.go  the workers that are connected
//	slot_counter.go     how many slots are connected, and how many are idle
//	price.go            the cost of a model's answer
//
// Ready runs:
//
//	announce.go         picks the runs to announce, a few at a time
//	backlog.go          runs that are announced and not yet claimed, in memory
//	stream.go           keeps the dispatch stream short
//	standby.go          slots that stand by with this replica
//	rate.go             how often something happened recently
//	shortage.go         warns when no worker takes the runs that wait
package orchestrator

// Package orchestrator is the service over store and dispatch: what clients ask
// for, what workers report, and the three loops that keep a replica honest
// (announcing what is ready, sweeping what was left, serving who watches).
//
// A replica holds nothing that another could not take over. What it keeps in
// memory is who is connected to it right now: watchers, with the last events of what
// they watch (tail.go), and the streams of attempts. Everything else is read from the
// store when it is needed.
//
// # Files
//
// The replica:
//
//	service.go      what a replica is made of, and its loops
//	sweep.go        finds by looking what a lost hint, timer or replica would have told
//	nudge.go        tells other replicas what was committed, and hears them
//	measure.go      metrics
//
// What clients ask for:
//
//	sessions.go     sessions, messages, tasks
//	import.go       sessions that begin with a conversation
//	branches.go     branches
//	inbox.go        what waits for a task
//	commands.go     commands of a run go on in the background
//	approvals.go    approvals
//	definitions.go  definitions of agents, listed and put
//	agents.go       which definitions count, and what follows for a child
//	callbacks.go    calls those who want to hear of the end of a run, or of an approval
//	body.go         what they are told
//
// Who looks at a session:
//
//	hub.go          tells them that there is something to look at
//	wait.go         waits for the end of a run
//	watch.go        shows events as they come
//	tail.go         reads the log once for all who watch a session here
//	tails.go        the tails of all such sessions
//	feed.go         what a tail is told of commits
//	log.go          events as they are read from the store
//	relay.go        text under way, for other replicas
//	wishes.go       of which sessions they want it
//
// A worker's stream:
//
//	work.go         serves the stream of a slot
//	claim.go        a run is claimed, and gone on with
//	answer.go       answers requests in their order
//	taking.go       how a slot gets its next run
//	seat.go         the place of a stream for an attempt
//	lease.go        an attempt, from its stream to its end
//	leases.go       all attempts here
//	alive.go        whether the worker of a broken stream is dead
//	roster.go       whose the streams are
//	census.go       how many streams there are, and how many are idle
//	price.go        what an answer of a model costs
//
// Runs that are ready:
//
//	announce.go     announces them on the dispatch stream, a few at a time
//	backlog.go      those that were announced while no slot is idle
//	stale.go        what is on the stream, and takes off it what nobody waits for
//	standby.go      slots that wait here without the stream
//	rate.go         how often something happened lately
//	missing.go      warns where there is no worker
package orchestrator

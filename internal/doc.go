// Package internal is the tour of Coppice: read this first, then the files it
// names, in its order: from the bottom up.
//
// # What it is
//
// A session is a conversation with a root agent. Agents spawn agents, and so a
// session is a tree of tasks. An orchestrator keeps the trees in a database;
// workers, which own nothing, carry tasks forward; Redis tells workers that
// there is something to do. What an orchestrator has acknowledged survives the
// loss of any process, and of all of Redis.
//
// The packages tree, store and orchestrator list their files in doc.go.
//
// # The core
//
// [github.com/coppice-run/coppice/internal/tree] holds the words (task.go,
// message.go) and decides every command in one place (decide.go and the files
// named after what commands are about). It is pure: a command gets a view of its
// session, checks everything, then changes the view; what it changed is what has
// to be written. All moves of a run's state are in transition.go.
//
// The idea to take along: a run moves from boundary to boundary. An assistant
// message opens calls; whoever closes the last of them (a worker with a tool's
// result, a child with its end, a timer) writes the tool message, takes in the
// inbox, and wakes the run if it was parked, all in the same transaction. So
// nobody has to poll, no wake can be lost, and a run can go on from its
// transcript alone.
//
// internal/transcript says what a model sees of a conversation: messages are
// stored once and referred to by forks and branches, a summary stands for what is
// older than it, and no model ever sees a call without its result.
//
// internal/policy, as pure, says what a run may do: an authority is a list of layers,
// its own and those of all above it, and the strictest counts.
//
// # The store
//
// internal/store/store.go is the way in; Update, in pending.go, is the only way to
// write. Commands queue to a committer (commit.go), which makes one transaction of all
// that have queued meanwhile, for many sessions, with one statement per table. A
// command that is refused does not disturb the others.
//
// # Dispatch
//
// internal/dispatch: a hint on a Redis stream says "session S, task T is ready
// under epoch E". It may be lost or doubled, since only the claim, decided like
// every command, gives a run to a worker. The orchestrator's announcer keeps the
// stream short, so what runs next is decided late and in SQL. Where slots wait with the
// orchestrator itself (internal/orchestrator/standby.go), the commit that makes a run ready
// claims it for one of them (internal/store/standby.go), and there is no hint.
//
// # The orchestrator
//
// internal/orchestrator/service.go and work.go: a replica's side of clients and
// of workers. work.go serves the stream of a worker's slot; the stream is the
// attempt's lease. When it breaks, internal/alive finds out whether its worker is
// dead; worker_registry.go knows which worker each stream belongs to. hub.go notifies the
// observers of a session: those that wait for a run (wait.go), and the tail, which reads the
// log once for all its watchers here (tail.go, watch.go). Text that a model writes is shown
// before it is stored: the hub shows it to watchers here, and relay.go sends it to the
// replicas that have announced interest in it (interests.go).
// internal/api puts it behind gRPC; internal/wire translates, and holds the one table
// of error codes. internal/api/guard.go says who may call what, by the tokens of
// internal/auth; a tenant comes from there alone.
//
// # The worker
//
// internal/worker/slot.go claims and prepares, over a line (line.go) of one stream after
// another, each to the replica that knows the session best, if it has a choice
// (internal/route); internal/loop/loop.go is the turn
// machine: model, message, tools, results, model. A fresh run, a wake and a run
// whose last worker was killed take the same path: look at the transcript, look
// at the open calls, go on. internal/tool and internal/model hold the contracts
// of the two things a loop uses; each tool is a file with its prose beside it.
// Below internal/model, each provider's types stop in a package of their own;
// patience waits failures out, governor makes rate limits a queue, and primer has agents that
// start together share a provider's prompt cache.
// internal/workspace gives a run the directory that its tools work in, and a
// sub-agent that wants one a git worktree.
// internal/agentdef reads the definitions of agents and the names of models, and
// internal/orchestrator/agents.go says which of them count; internal/skill reads
// the folders that the tool skill loads.
//
// A command in the background is a task as well (internal/tree/shell.go). It runs in
// the worker that has asked for it, beside the slots, over a stream of its own:
// internal/worker/commands.go. internal/tool/bash.go and command.go begin it, and
// internal/sandbox confines it.
//
// internal/mcp keeps connections to MCP servers for the whole worker and makes their
// tools tools of agents; the set may change while the worker runs.
//
// internal/hook runs what operators hang on the start and the stop of sub-agents;
// what comes of it is a request of the attempt like others, so it is stored once.
// internal/callback calls those who want to hear of the end of runs; a row that is
// written with the end says that it is still to be done.
//
// # Secrets
//
// internal/redact/redact.go: what is known to be secret is taken out of text once,
// where text comes in: in internal/loop/text.go, before a run remembers it, in
// internal/api/clean.go, before anybody sees a request, and in all logs. The journal
// of a worker looks at everything once more on its way out.
//
// # Whole processes
//
// internal/assembly wires the parts of a process and says in which order they
// start and stop; internal/cli is what a person types. internal/chaos kills such
// processes, and the connections between them, and holds what is stored against
// what was acknowledged. internal/drill does that to one tree at one of its steps, for
// who wants to see what becomes of a tree of theirs (internal/cli/drill.go).
//
// # Doubts
//
// The tool message of a boundary repeats nothing (it is assembled from the calls
// when it is read), which keeps the database small, but a read joins three
// tables. A child's result is rendered from its stored outcome on each read; a
// change to that rendering would change what old transcripts look like to a
// provider's prompt cache. Timers are found by a sweep each second, so a
// task_output timeout may be late by that much.
package internal

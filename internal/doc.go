// Package internal is a tour of Coppice. Read this first, then the files that it names, in
// their order: from the bottom up.
//
// # Overview
//
// A session is a conversation with a root agent. Agents spawn agents, so a session is a tree
// of tasks. An orchestrator keeps the trees in a database. Workers, which own nothing, execute
// the tasks. Redis tells workers that there is work. Whatever an orchestrator has acknowledged
// survives the loss of any process, and of all of Redis.
//
// The packages tree, store and orchestrator list their files in their doc.go.
//
// # The core
//
// [github.com/coppice-run/coppice/internal/tree] defines the terms (task.go, message.go) and
// decides every command in one place (decide.go, and the files named after what commands are
// about). It is pure. A command gets a view of its session, checks everything, and then changes
// the view. The changes of the view are what has to be written. transition.go has every change
// of a run's state.
//
// The central idea: a run moves from boundary to boundary. An assistant message opens calls.
// Whatever closes the last of them (a worker with a tool's result, the end of a child, a timer)
// also writes the tool message, takes in the inbox and wakes the run if it was parked, all in
// the same transaction. So nothing polls, no wake-up is lost, and a run can continue from its
// transcript alone.
//
// internal/transcript computes what a model sees of a conversation. Messages are stored once;
// forks and branches refer to them, a summary replaces older messages, and no model ever sees a
// call without its result.
//
// internal/policy, also pure, computes what a run may do. An authority is a list of layers: the
// run's own and those of all tasks above it. The strictest layer decides.
//
// # The store
//
// internal/store/store.go is the entry point. Update, in pending.go, is the only way to change a
// session. Commands queue to a committer (commit.go), which makes one transaction of all that
// have queued, for many sessions, with one statement per table. A refused command does not
// affect the others.
//
// # Dispatch
//
// internal/dispatch: a hint on a Redis stream says that a task of a session is ready under an
// epoch. Hints may be lost or duplicated, because only the claim, which is decided like every
// command, gives a run to a worker. The orchestrator's announcer keeps the stream short, so the
// order of runs is decided late and in SQL. If slots stand by at the orchestrator
// (internal/orchestrator/standby.go), the commit that makes a run ready claims it for one of
// them (internal/store/standby.go), and there is no hint.
//
// # The orchestrator
//
// internal/orchestrator/service.go and work.go are a replica's side towards clients and workers.
// work.go serves the stream of a worker's slot; the stream is the attempt's lease. When it
// breaks, internal/alive checks whether the worker is dead; worker_registry.go knows which worker
// each stream belongs to.
//
// hub.go notifies the observers of a session: callers that wait for a run (wait.go), and the
// tail, which reads the log once for all watchers on this replica (tail.go, watch.go). Text that
// a model writes is shown before it is stored: the hub shows it to local watchers, and relay.go
// sends it to the replicas that have announced interest in it (interests.go).
//
// internal/api puts the service behind gRPC. internal/wire translates between protobuf and Go,
// and has the only table of status codes. internal/api/guard.go authorises calls by the tokens
// of internal/auth; the tenant of a call comes only from there.
//
// # The worker
//
// internal/worker/slot.go claims and prepares runs. It uses a connection (conn.go) of one stream
// after another, each to the replica that knows the session best, if there is a choice
// (internal/route). internal/loop/loop.go is the agent loop: model, message, tools, results,
// model. A fresh run, a woken run and a run whose last worker was killed take the same path:
// read the transcript, look at the open calls, continue.
//
// internal/tool and internal/model define the two things that a loop uses. Each tool is a file
// with its description for the model beside it. Below internal/model, each provider's types stay
// in a package of their own; retry repeats failed requests, ratelimit queues requests at a
// provider's rate limit, and primer lets agents that start together share a provider's prompt
// cache. internal/workspace gives a run the directory that its tools work in, and a git worktree
// to sub-agents that want one. internal/agentdef reads agent definitions and model names, and
// internal/orchestrator/agents.go decides which of them apply. internal/skill reads the folders
// of the tool skill. internal/yamltree reads the YAML of definitions, hooks, MCP servers and
// scenarios, so that errors name a line.
//
// A background command is also a task (internal/tree/shell.go). It runs in the worker that
// requested it, outside of the slots, over a stream of its own (internal/worker/commands.go).
// internal/tool/bash.go and command.go start it, and internal/sandbox confines it.
//
// internal/mcp keeps connections to MCP servers for the whole worker and offers their tools to
// agents; the set of tools can change while the worker runs.
//
// internal/hook runs the operator's hooks at the start and the stop of sub-agents. A hook's
// outcome is reported by a request of the attempt like any other, so it is stored once.
// internal/callback calls the URLs that are to be told of the end of runs; a row that is written
// with the end says that the call is still to be made.
//
// # Secrets
//
// internal/redact/redact.go removes known secrets from text where the text comes in: in
// internal/loop/text.go before a run remembers it, in internal/api/clean.go before a request is
// handled, and in all logs. The journal of a worker checks everything again before it is sent.
//
// # Processes
//
// internal/assembly wires the parts of a process and defines the order in which they start and
// stop. internal/cli is the command line. internal/chaos kills processes and connections, and
// compares what is stored with what was acknowledged. internal/drill does that to one tree, at
// one of its steps, for users who want to test their own trees (internal/cli/drill.go).
//
// # Doubts
//
// The tool message of a boundary is not stored but assembled from the calls when it is read.
// That keeps the database small, but a read joins three tables. A child's result is rendered from
// its stored outcome on each read, so a change to that rendering also changes old transcripts, and
// they no longer match a provider's prompt cache. A sweep finds due timers once per second, so a
// task_output timeout may be late by that much.
package internal

// Package dispatch carries messages between orchestrators and workers over Redis. A Redis stream
// for each pool holds hints: "task T of session S is ready under epoch E". Channels between
// orchestrators carry nudges ("look at session S"), interests ("replica R shows the text of session
// S to a watcher") and that text.
//
// Redis is never the source of truth. SQL decides whether a run goes to a worker when the worker
// claims it. So a hint may be lost, duplicated, late or stale without harm, and so may a nudge.
// What a loss means:
//
//   - A hint, a stream, its group, or all of Redis: the runs wait until the orchestrator looks at
//     SQL again and announces them once more. [Bus.Pull] creates a missing stream and group.
//   - A worker that has read hints and died: other workers get them from [Bus.TakeOver].
//   - The answer to [Bus.Done]: the hint is delivered again and its claim is refused.
//   - A nudge: those who wait for the session see the change late. [Bus.Listen] says when nudges
//     may have been missed.
//   - An interest: its replica misses text until it sends the interest again.
//   - Text: it is a preview. The message is stored elsewhere.
//   - Redis while it is needed: calls return an error, and nothing is kept here. The caller
//     continues with what SQL says and tries again.
//
// Ordering: the hints of a pool are read in the order in which they were announced, by the consumer
// that asks first. Hints that were taken over come late. Nudges and interests have no order. Text
// from one sender to one receiver keeps its order. What runs next is decided by what is announced
// next, so keep the stream short: see [Bus.StreamLength].
//
// Concurrency: a [Bus] is safe for concurrent use, except that only one Pull may run at a time. A
// blocked Pull has a connection of its own, and so has each Listen and each ReceiveText, in
// addition to the client's pool.
//
// Redis 7.0 or later is required, or [OpenEmbedded]. In both, an entry is deleted before it is
// acknowledged. So a failure in between leaves no entry that is counted but can't be delivered. An
// XACK or XGROUP DELCONSUMER of another program can leave such entries: they are counted until the
// stream is deleted.
package dispatch

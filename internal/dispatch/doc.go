// Package dispatch is the wire between orchestrators and workers: Redis streams
// that say "session S, task T is ready under epoch E" (a hint), and channels
// between orchestrators: "look at session S" (a nudge), "replica R shows the text of
// session S to somebody" (a wish), and that text.
//
// Redis is never asked for the truth. Whether a run goes to a worker is decided
// in SQL when the worker claims it, so a hint may be lost, doubled, late or stale
// without harm, and a nudge too. What losing something means:
//
//   - a hint, a stream, its group, or all of Redis: the runs wait until SQL is
//     looked at again and they are announced once more. [Bus.Pull] makes a missing
//     stream and group by itself.
//   - a worker that has read hints and died: others get them from [Bus.TakeOver].
//   - the answer to [Bus.Done]: the hint is delivered again and its claim refused.
//   - a nudge: whoever waits for the session looks late. [Bus.Listen] says when
//     nudges may have been missed.
//   - a wish: its replica misses text until it wishes again. Text: it is a preview, and
//     what has been written is stored elsewhere.
//   - Redis while it is needed: calls return an error and nothing is kept here.
//     The caller goes on with what SQL says and tries again.
//
// Ordering: a pool's hints are read in the order in which they were announced, by
// whichever consumer asks first; what was taken over comes late. Nudges have no
// order, nor have wishes; text that one sends to another keeps its order. What runs next is decided by what is announced next, so keep the stream
// short: see [Bus.Backlog].
//
// Concurrency: a [Bus] may be used by any number of goroutines. A blocked Pull
// holds a connection of the client's pool, a Listen and a Hear one each beside the pool.
//
// Redis 7.0 or later is needed, or [OpenEmbedded]. In both, an entry is deleted
// before it is acknowledged, so whatever goes wrong in between leaves no entry
// that is counted but can't be delivered. Somebody else's XACK or XGROUP
// DELCONSUMER can leave such entries: they are counted until the stream is deleted.
package dispatch

// Package rawconn makes connections whose reads, writes and options do not wake the monitor thread of
// Go's runtime.
//
// While no goroutine runs, that thread sleeps. A system call that might block wakes it, and for at
// least a millisecond it then looks every 20 µs whether one does. A process that mostly waits for
// messages is idle between any two of them, so nearly each message wakes the thread. On two
// virtual processors that took 20 to 25% of an orchestrator's CPU where one run follows another, and
// 3 to 14% where it is busy.
//
// Sockets are never blocking in Go, so nobody has to watch their calls. They are made here without
// telling the runtime. What else the monitor thread does may begin later, with the next timer or
// any other system call: interrupting a goroutine that computes for more than 10 ms, and looking
// for network events while no processor is idle.
//
// Where the system is not Linux, and with the race detector, which orders events by these calls,
// the connections stay as they are.
package rawconn

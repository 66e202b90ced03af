package assembly

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// An orchestrator or a worker with little to do runs its Go code on one processor. On several, Go's
// scheduler wakes an idle thread when one goroutine passes a message to another, which costs more than
// the work that the thread could take over.
//
// With SQLite an orchestrator always runs on all: a goroutine that waits for the disk keeps its
// processor for a moment, and each commit waits. PostgreSQL is waited for without one. The tools of a
// worker wait for the disk and for commands, but less often.
const (
	loadInterval = 50 * time.Millisecond
	quietLoad    = 0.45 // of a processor: with less, for quietFor, one is enough
	busyLoad     = 0.5  // with more, all are used
	quietFor     = 500 * time.Millisecond
)

// processors decides on how many processors Go code runs.
type processors struct {
	single bool          // on one
	load   float64       // in processors, of the last few intervals
	quiet  time.Duration // for how long it has been less than quietLoad
}

// observe takes in the load of an interval, and reports whether single has changed. A collection of
// garbage fills an interval, but rarely two.
func (p *processors) observe(load float64, interval time.Duration) (changed bool) {
	before := p.single
	p.load = (p.load + load) / 2
	if p.quiet += interval; p.load >= quietLoad {
		p.quiet = 0
	}
	p.single = p.load <= busyLoad && (p.single || p.quiet >= quietFor)
	return p.single != before
}

// adaptProcessors adapts the number of processors to the load until ctx ends. used is how much time
// of processors this process has used; limit lets it use one, or all.
func adaptProcessors(ctx context.Context, used func() time.Duration, limit func(single bool)) {
	defer limit(false)
	var p processors
	tick := time.NewTicker(loadInterval)
	defer tick.Stop()
	before, at := used(), time.Now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		spent, now := used(), time.Now()
		interval := now.Sub(at)
		if p.observe(float64(spent-before)/float64(interval), interval) {
			limit(p.single)
		}
		before, at = spent, now
	}
}

// startAdapting adapts the number of processors until ctx ends or stop is called, unless there is no
// choice, or the operator has made it. stop waits.
func startAdapting(ctx context.Context) (stop func()) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var adapting sync.WaitGroup
	adapting.Go(func() { adaptProcessors(ctx, processorTime, limitProcessors) })
	return func() {
		cancel()
		adapting.Wait()
	}
}

func limitProcessors(single bool) {
	if single {
		runtime.GOMAXPROCS(1)
		return
	}
	runtime.SetDefaultGOMAXPROCS()
}

// processorTime is how much time of processors this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0 // it can't fail for oneself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

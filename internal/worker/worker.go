// Package worker claims ready runs and executes them. A worker is stateless: if it dies, only what
// it has not yet recorded with an orchestrator is lost.
//
// A worker has a fixed number of slots. Each slot keeps one stream to an orchestrator open and
// runs one attempt after another on it. One puller reads as many dispatch hints from Redis as
// there are idle slots. A slot claims the run of a hint over its stream, and only the
// orchestrator's answer decides whether the worker gets the run. With several replicas, the slot
// prefers the replica that sent the hint. Any replica would do, but runs on the same replica share
// transactions and cached sessions.
//
// A slot whose run parks or ends offers itself to the orchestrator with the same request. The
// orchestrator may then give it a run that became ready in the same step: a child of the run that
// parked, or the parent of the run that ended. Such a run needs neither a hint nor a claim. If
// there is none, the orchestrator may let the slot stand by for the next run. A slot that stands
// by takes no hints.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/workspace"
)

// ToolSource provides tools that come and go while a worker runs.
type ToolSource interface {
	// Tools returns the tools that a run may use and that are available now, and the ones that are
	// missing. may reports whether the run may use any tool that an entry names (see
	// [policy.EntryMatches]). Tools may take some seconds.
	Tools(ctx context.Context, may func(entry string) bool) ([]tool.Tool, []tool.Missing)
}

// MaxSlots is the greatest number of slots of a worker. Each takes memory and a stream.
const MaxSlots = 10_000

// Config configures a worker.
type Config struct {
	ID    string // unique among the workers of the installation
	Pool  string
	Slots int
	// Version is what the program was built from; empty: unknown.
	Version    string
	Client     pb.WorkerServiceClient
	Bus        func(installation string) (*dispatch.Bus, error)
	Model      model.Model
	Tools      []tool.Tool
	ToolSource ToolSource        // of further tools; nil: none
	Places     *workspace.Places // where runs work
	// AlivePort is the port on which this process answers liveness checks; 0: none.
	AlivePort int

	SkillsDirs []string // directories of skills, in addition to those of the workspace
	PluginsDir string   // directory of plugins, which may hold skills; empty: none

	Secrets *redact.Redactor // never sent to an orchestrator or logged; nil: none are known

	Hooks   *hook.Hooks // on the start and stop of sub-agents; nil: none
	Logger  *slog.Logger
	Observe loop.Observer // of tool calls; nil: none
	// OnReachable is called with true when an orchestrator welcomes a slot, and with false when
	// none has been reached for a while. It must not block. nil: not called.
	OnReachable func(bool)
	Now         func() time.Time
}

// Times of the puller. A pull returns as soon as there is a hint; pullBlock only bounds how long it
// takes to notice a dead connection.
const (
	pullBlock     = 5 * time.Second
	takeOverEvery = 2 * time.Second
	takeOverIdle  = 5 * time.Second
	redisTimeout  = time.Second // of each Redis call that slots or the shutdown wait for
	pullRetryMin  = 200 * time.Millisecond
	retryMax      = 3 * time.Second
)

// The delays before a slot opens another stream: the first one, and the maximum while an attempt is
// in progress.
const (
	reconnectMin         = 20 * time.Millisecond
	reconnectMaxAttached = 300 * time.Millisecond
)

// Worker is a running set of slots.
type Worker struct {
	Config
	idleSlots        chan struct{} // one token for each slot that waits for a hint
	hintsUnavailable chan struct{} // one token for each slot that gets no hint, because Redis cannot be read
	hintRouter       *hintRouter
	replicas         *replicaEndpoints
	reachability     reachability
	installation     installation
	bus              atomic.Pointer[dispatch.Bus]
	acks             *ackQueue
	definitions      definitions
	transcripts      *transcript.Cache // of runs that have parked on this worker
	commands         sync.WaitGroup    // running background commands
	busy             atomic.Int64      // slots that have a run
	hello            *pb.Hello
	draining         chan struct{} // closed when the worker takes no more runs
	drainOnce        sync.Once
}

// New creates a worker. It fails if the configuration is incomplete.
func New(c Config) (*Worker, error) {
	switch {
	case c.ID == "":
		return nil, errors.New("worker: an id is required")
	case c.Slots < 1 || c.Slots > MaxSlots:
		return nil, fmt.Errorf("worker: %d slots, must be from 1 to %d", c.Slots, MaxSlots)
	case c.Client == nil || c.Bus == nil || c.Model == nil || c.Places == nil:
		return nil, errors.New("worker: an orchestrator, a bus, a model and places to work in are required")
	}
	if err := dispatch.CheckPool(c.Pool); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Logger = c.Logger.With("worker_id", c.ID)
	return &Worker{
		Config:           c,
		idleSlots:        make(chan struct{}, c.Slots),
		hintsUnavailable: make(chan struct{}, c.Slots),
		hintRouter:       newHintRouter(),
		replicas:         newReplicaEndpoints(),
		reachability:     reachability{notify: c.OnReachable},
		acks:             newAckQueue(),
		transcripts:      transcript.NewCache(),
		draining:         make(chan struct{}),
		hello: &pb.Hello{
			WorkerId: c.ID, Pool: c.Pool, Slots: int32(c.Slots), Version: c.Version, StartTime: timestamppb.New(c.Now()),
		},
	}, nil
}

// Busy returns the number of slots that have a run.
func (w *Worker) Busy() int { return int(w.busy.Load()) }

// Run works until ctx ends, or until the worker has drained. When ctx ends, attempts in progress
// are dropped, and the orchestrator gives their runs to other workers.
func (w *Worker) Run(ctx context.Context) error {
	// The puller ends first. Slots still claim its last hints, and give these runs back at once
	// with the others. Left in the stream, they would only be taken over after takeOverIdle.
	workCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	g, workCtx := errgroup.WithContext(workCtx)
	var slots sync.WaitGroup
	claimCtx, stopClaims := context.WithCancel(workCtx)
	defer stopClaims()
	for range w.Slots {
		slots.Go(func() { w.runSlot(workCtx, claimCtx) })
	}
	g.Go(func() error {
		defer stop()
		pullCtx, stopPulling := cancelWhenClosed(ctx, w.draining) // no run is claimed after that
		defer stopPulling()
		if err := w.followInstallation(pullCtx, workCtx); err != nil || ctx.Err() != nil {
			return err
		}
		stopClaims()
		w.waitDrained(ctx, &slots)
		return nil
	})
	g.Go(func() error { return w.ackHints(workCtx) })
	err := g.Wait()
	slots.Wait()
	w.leaveGroup(ctx)
	w.commands.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// pullHints reads hints for idle slots until ctx ends. Slots still receive the hints that it has
// read by then, until workCtx ends. If Redis cannot be read, idle slots may stand by instead.
func (w *Worker) pullHints(ctx, workCtx context.Context) {
	bus := w.bus.Load()
	lastTakeOver := w.Now()
	for wait := pullRetryMin; ctx.Err() == nil; {
		n := w.waitForIdleSlots(ctx)
		if n == 0 {
			return
		}
		found, err := w.readHints(ctx, bus, n, &lastTakeOver)
		failed, unused := err != nil && ctx.Err() == nil, w.idleSlots
		if failed {
			unused = w.hintsUnavailable
		}
		for range n - len(found) {
			unused <- struct{}{}
		}
		if failed {
			bus.LogFailure(ctx, "pulling failed", err, "redis", bus.Addr())
			pause(ctx, wait)
			wait = min(2*wait, retryMax)
			continue
		}
		wait = pullRetryMin
		for i, d := range found {
			if !w.deliverHint(ctx, workCtx, d) {
				for range found[i:] {
					w.idleSlots <- struct{}{}
				}
				return
			}
		}
	}
}

// deliverHint hands a hint to a slot. Once ctx has ended it waits at most streamCloseTimeout:
// slots without a stream take no hints, and may never have a stream again.
func (w *Worker) deliverHint(ctx, workCtx context.Context, d dispatch.Delivery) bool {
	workCtx, stop := context.WithCancel(workCtx)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(streamCloseTimeout, stop) })()
	return w.hintRouter.deliver(workCtx, d)
}

// waitForIdleSlots waits for an idle slot and returns how many there are; 0 if ctx ends first.
func (w *Worker) waitForIdleSlots(ctx context.Context) int {
	select {
	case <-w.idleSlots:
	case <-ctx.Done():
		return 0
	}
	n := 1
	for {
		select {
		case <-w.idleSlots:
			n++
		default:
			return n
		}
	}
}

// readHints pulls hints. Every takeOverEvery it first takes over the hints of dead workers.
func (w *Worker) readHints(ctx context.Context, bus *dispatch.Bus, n int, last *time.Time) ([]dispatch.Delivery, error) {
	if now := w.Now(); now.Sub(*last) >= takeOverEvery {
		*last = now
		taking, cancel := context.WithTimeout(ctx, redisTimeout)
		defer cancel()
		found, err := bus.TakeOver(taking, w.Pool, w.ID, takeOverIdle, n)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return bus.Pull(ctx, w.Pool, w.ID, n, pullBlock)
}

// leaveGroup acknowledges the last hints and removes the worker from the consumer group.
func (w *Worker) leaveGroup(ctx context.Context) {
	bus := w.bus.Load()
	if bus == nil {
		return
	}
	w.flushAcks(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	if err := errors.Join(bus.Forget(ctx, w.Pool, w.ID), bus.Close()); err != nil {
		w.Logger.DebugContext(ctx, "leaving the consumer group failed", "error", err)
	}
}

// pause sleeps for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

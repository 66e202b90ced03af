// Package worker pulls ready runs and carries them forward. A worker owns
// nothing: what it has not recorded with the orchestrator is lost with it, and
// nothing else is.
//
// A worker has a number of slots. Each slot keeps one stream to an orchestrator
// open and runs one attempt after another on it; one puller reads as many
// dispatch hints from Redis as there are free slots. A hint is claimed over the
// stream, and only the orchestrator's answer decides whether the run is ours. With several
// replicas the stream goes to the one that the hint is from: all replicas would do, but
// what shares a replica shares transactions and what is remembered.
//
// A slot whose run parks or ends offers itself with that, and may get a run in its place
// that has become ready in the same step: a child of the one that has parked, or the
// parent of the one that has ended. No hint is needed for it, and no claim. If there is none
// yet, the orchestrator may keep the slot for the next one; then it takes no hints.
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

// Source has tools that come and go while a worker runs.
type ToolSource interface {
	// Tools gives the tools that there are now of those that a run may use, and what
	// is missing. May says whether it may use any tool that an entry (see
	// [policy.Names]) names. It may take some seconds.
	Tools(ctx context.Context, may func(entry string) bool) ([]tool.Tool, []tool.Missing)
}

// Config says what a worker works with.
type Config struct {
	ID    string // unique among the workers of the installation
	Pool  string
	Slots int
	// Version is what the program was built from; empty: not known.
	Version    string
	Client     pb.WorkerServiceClient
	Bus        func(installation string) (*dispatch.Bus, error)
	Model      model.Model
	Tools      []tool.Tool
	ToolSource ToolSource        // of further tools; nil: none
	Places     *workspace.Places // where runs work
	// AlivePort is where this process tells that it lives; 0: nowhere.
	AlivePort int

	SkillsDirs []string // directories of skills, beside those of the workspace
	PluginsDir string   // directory of plugins, which may hold skills; empty: none

	Secrets *redact.Redactor // that leave the worker on no way; nil: none are known

	Hooks   *hook.Hooks // on the start and stop of sub-agents; nil: none
	Logger  *slog.Logger
	Observe loop.Observer // of calls of tools; nil: nobody does
	// Reached is told with true when an orchestrator welcomes a slot, and with false when none has
	// for a while; nil: nobody wants to know. It must not wait.
	OnReachable func(bool)
	Now         func() time.Time
}

// Times of the puller. A blocked pull is only a way to notice cancellation of
// the server's side; a hint ends it at once.
const (
	pullBlock     = 5 * time.Second
	takeOverEvery = 2 * time.Second
	takeOverIdle  = 5 * time.Second
	redisTimeout  = time.Second // with each thing for which slots wait, or who stops the worker
	pullRetryMin  = 200 * time.Millisecond
	retryMax      = 3 * time.Second
)

// How long a slot waits before it opens another stream: at first, and at most
// while an attempt waits for it.
const (
	reconnectMin         = 20 * time.Millisecond
	reconnectMaxAttached = 300 * time.Millisecond
)

// Worker is a running set of slots.
type Worker struct {
	Config
	idleSlots        chan struct{} // one for each slot that wants a hint
	hintsUnavailable chan struct{} // one for each that gets none, as Redis can't be read
	hintRouter       *hintRouter
	replicas         *replicaEndpoints
	reachability     reachability
	installation     installation
	bus              atomic.Pointer[dispatch.Bus]
	acks             *ackQueue
	definitions      definitions
	transcripts      *transcript.Held // of runs that have parked here
	commands         sync.WaitGroup   // of commands that are tasks
	busy             atomic.Int64     // slots that have a run
	hello            *pb.Hello
	draining         chan struct{} // closed when no run is taken any more
	drainOnce        sync.Once
}

// New checks the configuration.
func New(c Config) (*Worker, error) {
	switch {
	case c.ID == "":
		return nil, errors.New("worker: an id is required")
	case c.Slots < 1:
		return nil, fmt.Errorf("worker: %d slots, need at least 1", c.Slots)
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
		transcripts:      transcript.NewHeld(),
		draining:         make(chan struct{}),
		hello: &pb.Hello{
			WorkerId: c.ID, Pool: c.Pool, Slots: int32(c.Slots), Version: c.Version, StartTime: timestamppb.New(c.Now()),
		},
	}, nil
}

// Busy says how many slots have a run now.
func (w *Worker) Busy() int { return int(w.busy.Load()) }

// Run works until ctx ends. Attempts under way are dropped then; the
// orchestrator gives their runs to other workers. After Drain it ends by itself.
func (w *Worker) Run(ctx context.Context) error {
	// The puller ends first: what it is given last is still claimed, and given back at
	// once with the rest. Left on the stream it would be looked for only after a while.
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
		pullCtx, stopPulling := cancelWhenClosed(ctx, w.draining) // no run is taken after that
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

// pull reads hints for free slots until ctx ends. What it has read then goes to slots as
// long as they work. If it can't read, the slots may stand by instead.
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
			w.Logger.WarnContext(ctx, "pulling failed", "error", err)
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

// handOut hands a hint to a slot. Once ctx has ended it waits no longer than for a goodbye: slots
// that have no stream take none, and there may never be one again.
func (w *Worker) deliverHint(ctx, workCtx context.Context, d dispatch.Delivery) bool {
	workCtx, stop := context.WithCancel(workCtx)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(streamCloseTimeout, stop) })()
	return w.hintRouter.deliver(workCtx, d)
}

// freeSlots waits for a free slot and counts how many there are.
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

// read takes over what dead workers have left, from time to time, and pulls.
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

// leave takes the last hints off the stream, and the worker out of its readers.
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

// pause waits, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

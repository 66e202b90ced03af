package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/coppice-run/coppice/bench/installation"
	"github.com/coppice-run/coppice/bench/system"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// maxChildren of one answer: past it, parents have parents.
const maxChildren = 1000

// coppice is an installation below this process.
type coppice struct {
	kind         installation.Kind
	installation *installation.Installation

	last    *pb.Session // of a parent
	tasks   int         // that it has to have
	answers int         // of their models
}

// Start implements system.System.
func (c *coppice) Start(ctx context.Context, at system.Setup) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.installation, err = installation.Start(ctx, installation.Options{
		Kind: c.kind, Binaries: installation.Built(filepath.Join(filepath.Dir(self), "coppice-bin")),
		Workers: 1, Slots: system.Slots, Database: at.Postgres, Wire: at.Redis,
	})
	return err
}

// Spawn implements system.System. The parent's model answers at once, so from one spawn
// to the next is from the spawn to the result, joined and seen by the model; the times
// are those of the session's events.
func (c *coppice) Spawn(ctx context.Context, n int) ([]time.Duration, error) {
	rounds := n + 1
	s, err := c.installation.Do(ctx, installation.Parent, fmt.Sprint("rounds ", rounds))
	if err != nil {
		return nil, err
	}
	c.last, c.tasks, c.answers = s, 1+rounds, 2*rounds+1
	var spawned []time.Time
	err = c.installation.Replay(ctx, s.GetId(), func(e *pb.Event) {
		if e.GetStarted().GetParentId() != "" {
			spawned = append(spawned, e.GetTime().AsTime())
		}
	})
	return between(spawned), err
}

// between gives the times from each to the next.
func between(times []time.Time) []time.Duration {
	var passed []time.Duration
	for i := range len(times) - 1 {
		passed = append(passed, times[i+1].Sub(times[i]))
	}
	return passed
}

// FanOut implements system.System.
func (c *coppice) FanOut(ctx context.Context, n int) error {
	prompt := fmt.Sprint("fan ", n)
	parents := 1
	if n > maxChildren {
		if n%maxChildren != 0 {
			return fmt.Errorf("%d children can't be shared by parents of %d", n, maxChildren)
		}
		prompt = fmt.Sprintf("spread %d %s fan %d", n/maxChildren, installation.Parent, maxChildren)
		parents += n / maxChildren
	}
	// A parent answers twice: with its children, and when they have ended.
	c.tasks, c.answers = parents+n, 2*parents+n
	var err error
	c.last, err = c.installation.Do(ctx, installation.Parent, prompt)
	return err
}

// Check implements system.Checked.
func (c *coppice) Check(ctx context.Context) error {
	return c.installation.CheckCounts(ctx, c.last, c.tasks, c.answers)
}

// Independent implements system.System. Each task is the root of a session of its own; as many
// are open at once as there are slots.
func (c *coppice) Independent(ctx context.Context, n int) error {
	return c.installation.DoMany(ctx, installation.Child, "answer", n, system.Slots)
}

// Stop implements system.System.
func (c *coppice) Stop(context.Context) error {
	if c.installation == nil {
		return errors.New("it was not started")
	}
	return c.installation.Stop()
}

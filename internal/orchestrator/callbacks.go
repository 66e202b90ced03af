package orchestrator

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// Callbacks are looked for each callbacksEvery, and callbacksSoon after a call has ended if
// some had to wait. One replica makes callbacksAtOnce at the same time, and callbacksOfHost
// to one host: a host that does not answer holds up what it is to hear itself.
const (
	callbackInterval    = time.Second
	callbackRelookPause = 50 * time.Millisecond
	maxCallbacks        = 64
	maxCallbacksPerHost = 4
)

// A look finds this many callbacks, so that those that are under way but not taken yet hide
// neither the next ones of their host nor those of others, and a host whose calls are short
// has enough of them until the next look.
const (
	callbacksPerLook        = 4 * maxCallbacks
	callbacksPerLookAndHost = 16 * maxCallbacksPerHost
)

// callbackMargin is how much longer a replica has a callback than the call may
// take, for settling it.
const callbackMargin = 5 * time.Second

// runCallbacks makes the calls that are due, until ctx ends. What is under way then is
// cut off and left to others.
func (s *Service) runCallbacks(ctx context.Context) error {
	calling := newCallbackQueue()
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(callbackInterval)
	defer tick.Stop()
	var after, afterAsked string
	for look, going := true, true; going; look, going = calling.wait(ctx, tick.C) {
		if look {
			due, next, err := s.Store.DueCallbacks(ctx, after, callbacksPerLookAndHost, callbacksPerLook)
			asked, nextAsked, errAsked := s.Store.DueAsked(ctx, afterAsked, callbacksPerLookAndHost, callbacksPerLook)
			if err := errors.Join(err, errAsked); err != nil && ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "looking for callbacks failed", "error", err)
			}
			after, afterAsked = next, nextAsked
			calling.setDue(append(asked, due...), next != "" || nextAsked != "")
		}
		for _, c := range calling.startNext() {
			running.Go(func() {
				defer func() { calling.ended <- c }()
				if err := s.makeCallback(ctx, &c.Callback); err != nil && ctx.Err() == nil {
					// It comes due again when its lease is over.
					s.Logger.WarnContext(ctx, "a callback failed", "session_id", c.Session, "task_id", c.Task, "run", c.Run, "error", err)
				}
			})
		}
	}
	return nil
}

// callbackQueue is the callbacks that are under way, and those that wait for room.
type callbackQueue struct {
	running       map[callbackID]bool
	runningByHost map[string]int // how many calls each host has
	waiting       []hostCallback // that the last look has found, without those under way
	hasWaited     bool           // some have waited since that look
	lookSoon      <-chan time.Time
	ended         chan hostCallback // has room for all
}

// hostCallback is a callback with whom it calls.
type hostCallback struct {
	store.Callback
	host string
}

// callbackID is what a callback is about.
type callbackID struct {
	session tree.SessionID
	key     tree.CallbackKey
}

func newCallbackQueue() *callbackQueue {
	return &callbackQueue{running: map[callbackID]bool{}, runningByHost: map[string]int{}, ended: make(chan hostCallback, maxCallbacks)}
}

func callbackIDOf(c *store.Callback) callbackID { return callbackID{c.Session, c.Key()} }

// hostOf gives whom a callback calls.
func hostOf(c *store.Callback) string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return c.URL
	}
	return strings.ToLower(u.Host)
}

// setDue takes what a look has found to be due, in place of what the look before has found;
// others says that it was not at all hosts. What has been due for longest goes first, whether an
// approval or the end of a run is told.
func (c *callbackQueue) setDue(due []store.Callback, others bool) {
	c.waiting, c.hasWaited, c.lookSoon = nil, false, nil
	for i := range due {
		if !c.running[callbackIDOf(&due[i])] {
			c.waiting = append(c.waiting, hostCallback{due[i], hostOf(&due[i])})
		}
	}
	slices.SortStableFunc(c.waiting, func(a, b hostCallback) int { return a.Due.Compare(b.Due) })
	if others {
		c.lookSoon = time.After(callbackRelookPause)
	}
}

// startNext gives the callbacks that are under way from now on, of those that wait. A host that
// has fewer calls goes before one that has more.
func (c *callbackQueue) startNext() (now []hostCallback) {
	for most := 1; most <= maxCallbacksPerHost; most++ {
		c.waiting = slices.DeleteFunc(c.waiting, func(next hostCallback) bool {
			if len(c.running) == maxCallbacks || c.runningByHost[next.host] >= most {
				return false
			}
			c.running[callbackIDOf(&next.Callback)] = true
			c.runningByHost[next.host]++
			now = append(now, next)
			return true
		})
	}
	c.hasWaited = c.hasWaited || len(c.waiting) > 0
	return now
}

// finish makes room for others.
func (c *callbackQueue) finish(called hostCallback) {
	delete(c.running, callbackIDOf(&called.Callback))
	if c.runningByHost[called.host]--; c.runningByHost[called.host] == 0 {
		delete(c.runningByHost, called.host)
	}
	if c.hasWaited && c.lookSoon == nil {
		c.lookSoon = time.After(callbackRelookPause)
	}
}

// wait waits until there may be room for a call, or it is time for another look. It is not
// going on if ctx ends.
func (c *callbackQueue) wait(ctx context.Context, tick <-chan time.Time) (look, going bool) {
	select {
	case called := <-c.ended:
		c.finish(called)
		return false, true
	case <-c.lookSoon:
		return true, true
	case <-tick:
		return true, true
	case <-ctx.Done():
		return false, false
	}
}

// makeCallback takes a callback, makes its call and says what came of it. That another
// replica has it is fine.
func (s *Service) makeCallback(ctx context.Context, c *store.Callback) error {
	answer, err := s.Store.Update(ctx, c.Session, tree.TakeCallback{
		CallbackKey: c.Key(), Lease: s.Callbacks.Timeout + callbackMargin, MaxTries: s.Callbacks.MaxTries,
	})
	taken, ours := answer.(tree.CallbackTaken)
	switch {
	case isCallbackOver(err):
		return nil
	case err != nil || !ours:
		return err
	}
	key, body, err := s.callbackBody(ctx, c, taken.Asked)
	if err != nil {
		return err
	}
	called := s.Callbacks.Call(ctx, taken.Callback.URL, key, body)
	settle := tree.SettleCallback{
		CallbackKey: c.Key(), Try: taken.Callback.Tries, MaxTries: s.Callbacks.MaxTries,
		Delivered: called == nil, Final: errors.Is(called, callback.ErrForbidden),
		Retry: s.Callbacks.Retry(taken.Callback.Tries),
	}
	if called != nil {
		settle.Detail = s.Secrets.String(called.Error())
	}
	if called != nil && ctx.Err() != nil {
		return nil // this replica stops; the lease will be over
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), callbackMargin)
	defer cancel()
	if _, err = s.Store.Update(settling, c.Session, settle); isCallbackOver(err) {
		return nil // an approval was decided meanwhile
	}
	return err
}

// isCallbackOver says that nobody is to be called any more, or not by this replica.
func isCallbackOver(err error) bool {
	return errors.Is(err, tree.ErrNotDue) || errors.Is(err, tree.ErrNoCallback) || errors.Is(err, tree.ErrNoSession)
}

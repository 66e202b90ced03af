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

// Due callbacks are read each callbackInterval, and callbackRelookPause after a call has ended if
// some had to wait. A replica makes up to maxCallbacks calls at once, and up to maxCallbacksPerHost
// to one host, so that a host that does not answer delays only its own callbacks.
const (
	callbackInterval    = time.Second
	callbackRelookPause = 50 * time.Millisecond
	maxCallbacks        = 64
	maxCallbacksPerHost = 4
)

// Each look reads this many callbacks. The result may include callbacks that are running but not
// taken yet. There have to be enough others, of the same host and of other hosts, to keep all calls
// busy until the next look.
const (
	callbacksPerLook        = 4 * maxCallbacks
	callbacksPerLookAndHost = 16 * maxCallbacksPerHost
)

// callbackMargin is the time that the lease of a callback has in addition to the timeout of its
// call, to store the outcome.
const callbackMargin = 5 * time.Second

// runCallbacks makes the calls that are due, until ctx ends. Calls that are running then are
// interrupted, and left to other replicas.
func (s *Service) runCallbacks(ctx context.Context) error {
	queue := newCallbackQueue()
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(callbackInterval)
	defer tick.Stop()
	var after, afterAsked string
	for look, going := true, true; going; look, going = queue.wait(ctx, tick.C) {
		if look {
			due, next, err := s.Store.DueCallbacks(ctx, after, callbacksPerLookAndHost, callbacksPerLook)
			asked, nextAsked, errAsked := s.Store.DueApprovalCallbacks(ctx, afterAsked, callbacksPerLookAndHost, callbacksPerLook)
			if err := errors.Join(err, errAsked); err != nil && ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "reading due callbacks failed", "error", err)
			}
			after, afterAsked = next, nextAsked
			queue.setDue(append(asked, due...), next != "" || nextAsked != "")
		}
		for _, c := range queue.startNext() {
			running.Go(func() {
				defer func() { queue.ended <- c }()
				if err := s.makeCallback(ctx, &c.Callback); err != nil && ctx.Err() == nil {
					// It becomes due again when its lease expires.
					s.Logger.WarnContext(ctx, "a callback failed", "session_id", c.Session, "task_id", c.Task, "run", c.Run, "error", err)
				}
			})
		}
	}
	return nil
}

// callbackQueue holds the callbacks that are running, and those that wait.
type callbackQueue struct {
	running       map[callbackID]bool
	runningByHost map[string]int // how many calls to each host are running
	waiting       []hostCallback // those that the last look has found and that are not running
	hasWaited     bool           // some have waited since the last look
	lookSoon      <-chan time.Time
	ended         chan hostCallback // has room for all running calls
}

// hostCallback is a callback with the host that it calls.
type hostCallback struct {
	store.Callback
	host string
}

// callbackID identifies a callback.
type callbackID struct {
	session tree.SessionID
	key     tree.CallbackKey
}

func newCallbackQueue() *callbackQueue {
	return &callbackQueue{running: map[callbackID]bool{}, runningByHost: map[string]int{}, ended: make(chan hostCallback, maxCallbacks)}
}

func callbackIDOf(c *store.Callback) callbackID { return callbackID{c.Session, c.Key()} }

// hostOf returns the host that a callback calls.
func hostOf(c *store.Callback) string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return c.URL
	}
	return strings.ToLower(u.Host)
}

// setDue replaces the waiting callbacks with those that a look has found. others says that the look
// has left out some hosts. The callbacks that have been due for longest go first, whether they are
// about an approval or the end of a run.
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

// startNext removes the callbacks that can run now from those that wait, and returns them. Hosts
// with fewer running calls go first.
func (c *callbackQueue) startNext() (started []hostCallback) {
	for most := 1; most <= maxCallbacksPerHost; most++ {
		c.waiting = slices.DeleteFunc(c.waiting, func(next hostCallback) bool {
			if len(c.running) == maxCallbacks || c.runningByHost[next.host] >= most {
				return false
			}
			c.running[callbackIDOf(&next.Callback)] = true
			c.runningByHost[next.host]++
			started = append(started, next)
			return true
		})
	}
	c.hasWaited = c.hasWaited || len(c.waiting) > 0
	return started
}

// finish records that a call has ended.
func (c *callbackQueue) finish(call hostCallback) {
	delete(c.running, callbackIDOf(&call.Callback))
	if c.runningByHost[call.host]--; c.runningByHost[call.host] == 0 {
		delete(c.runningByHost, call.host)
	}
	if c.hasWaited && c.lookSoon == nil {
		c.lookSoon = time.After(callbackRelookPause)
	}
}

// wait waits until a call has ended or it is time for another look. going is false if ctx has
// ended.
func (c *callbackQueue) wait(ctx context.Context, tick <-chan time.Time) (look, going bool) {
	select {
	case call := <-c.ended:
		c.finish(call)
		return false, true
	case <-c.lookSoon:
		return true, true
	case <-tick:
		return true, true
	case <-ctx.Done():
		return false, false
	}
}

// makeCallback takes the lease of a callback, makes the call and stores the outcome. It is no error
// if another replica has the lease.
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
	key, body, err := s.marshalCallback(ctx, c, taken.Asked)
	if err != nil {
		return err
	}
	callErr := s.Callbacks.Call(ctx, taken.Callback.URL, key, body)
	settle := tree.SettleCallback{
		CallbackKey: c.Key(), Try: taken.Callback.Tries, MaxTries: s.Callbacks.MaxTries,
		Delivered: callErr == nil, Final: errors.Is(callErr, callback.ErrForbidden),
		Retry: s.Callbacks.RetryDelay(taken.Callback.Tries),
	}
	if callErr != nil {
		settle.Detail = s.Secrets.String(callErr.Error())
	}
	if callErr != nil && ctx.Err() != nil {
		return nil // this replica stops; the lease will expire
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), callbackMargin)
	defer cancel()
	if _, err = s.Store.Update(settling, c.Session, settle); isCallbackOver(err) {
		return nil // the approval was decided meanwhile
	}
	return err
}

// isCallbackOver reports whether a callback no longer has to be made, or not by this replica.
func isCallbackOver(err error) bool {
	return errors.Is(err, tree.ErrNotDue) || errors.Is(err, tree.ErrNoCallback) || errors.Is(err, tree.ErrNoSession)
}

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
	callbacksEvery  = time.Second
	callbacksSoon   = 50 * time.Millisecond
	callbacksAtOnce = 64
	callbacksOfHost = 4
)

// A look finds this many callbacks, so that those that are under way but not taken yet hide
// neither the next ones of their host nor those of others, and a host whose calls are short
// has enough of them until the next look.
const (
	callbacksSeen       = 4 * callbacksAtOnce
	callbacksSeenOfHost = 16 * callbacksOfHost
)

// callbackMargin is how much longer a replica has a callback than the call may
// take, for settling it.
const callbackMargin = 5 * time.Second

// callBack makes the calls that are due, until ctx ends. What is under way then is
// cut off and left to others.
func (s *Service) callBack(ctx context.Context) error {
	calling := newCalling()
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(callbacksEvery)
	defer tick.Stop()
	var after, afterAsked string
	for look, going := true, true; going; look, going = calling.pause(ctx, tick.C) {
		if look {
			due, next, err := s.Store.DueCallbacks(ctx, after, callbacksSeenOfHost, callbacksSeen)
			asked, nextAsked, errAsked := s.Store.DueApprovalCallbacks(ctx, afterAsked, callbacksSeenOfHost, callbacksSeen)
			if err := errors.Join(err, errAsked); err != nil && ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "looking for callbacks failed", "error", err)
			}
			after, afterAsked = next, nextAsked
			calling.found(append(asked, due...), next != "" || nextAsked != "")
		}
		for _, c := range calling.begin() {
			running.Go(func() {
				defer func() { calling.ended <- c }()
				if err := s.callOne(ctx, &c.Callback); err != nil && ctx.Err() == nil {
					// It comes due again when its lease is over.
					s.Logger.WarnContext(ctx, "a callback failed", "session_id", c.Session, "task_id", c.Task, "run", c.Run, "error", err)
				}
			})
		}
	}
	return nil
}

// calling is the callbacks that are under way, and those that wait for room.
type calling struct {
	about   map[called]bool
	hosts   map[string]int // how many calls each host has
	waiting []call         // that the last look has found, without those under way
	more    bool           // some have waited since that look
	soon    <-chan time.Time
	ended   chan call // has room for all
}

// call is a callback with whom it calls.
type call struct {
	store.Callback
	host string
}

// called is what a callback is about.
type called struct {
	session tree.SessionID
	key     tree.CallbackKey
}

func newCalling() *calling {
	return &calling{about: map[called]bool{}, hosts: map[string]int{}, ended: make(chan call, callbacksAtOnce)}
}

func calledBy(c *store.Callback) called { return called{c.Session, c.Key()} }

// hostOf gives whom a callback calls.
func hostOf(c *store.Callback) string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return c.URL
	}
	return strings.ToLower(u.Host)
}

// found takes what a look has found to be due, in place of what the look before has found;
// others says that it was not at all hosts. What has been due for longest goes first, whether an
// approval or the end of a run is told.
func (c *calling) found(due []store.Callback, others bool) {
	c.waiting, c.more, c.soon = nil, false, nil
	for i := range due {
		if !c.about[calledBy(&due[i])] {
			c.waiting = append(c.waiting, call{due[i], hostOf(&due[i])})
		}
	}
	slices.SortStableFunc(c.waiting, func(a, b call) int { return a.Due.Compare(b.Due) })
	if others {
		c.soon = time.After(callbacksSoon)
	}
}

// begin gives the callbacks that are under way from now on, of those that wait. A host that
// has fewer calls goes before one that has more.
func (c *calling) begin() (now []call) {
	for most := 1; most <= callbacksOfHost; most++ {
		c.waiting = slices.DeleteFunc(c.waiting, func(next call) bool {
			if len(c.about) == callbacksAtOnce || c.hosts[next.host] >= most {
				return false
			}
			c.about[calledBy(&next.Callback)] = true
			c.hosts[next.host]++
			now = append(now, next)
			return true
		})
	}
	c.more = c.more || len(c.waiting) > 0
	return now
}

// end makes room for others.
func (c *calling) end(called call) {
	delete(c.about, calledBy(&called.Callback))
	if c.hosts[called.host]--; c.hosts[called.host] == 0 {
		delete(c.hosts, called.host)
	}
	if c.more && c.soon == nil {
		c.soon = time.After(callbacksSoon)
	}
}

// pause waits until there may be room for a call, or it is time for another look. It is not
// going on if ctx ends.
func (c *calling) pause(ctx context.Context, tick <-chan time.Time) (look, going bool) {
	select {
	case called := <-c.ended:
		c.end(called)
		return false, true
	case <-c.soon:
		return true, true
	case <-tick:
		return true, true
	case <-ctx.Done():
		return false, false
	}
}

// callOne takes a callback, makes its call and says what came of it. That another
// replica has it is fine.
func (s *Service) callOne(ctx context.Context, c *store.Callback) error {
	answer, err := s.Store.Update(ctx, c.Session, tree.TakeCallback{
		CallbackKey: c.Key(), Lease: s.Callbacks.Timeout + callbackMargin, MaxTries: s.Callbacks.MaxTries,
	})
	taken, ours := answer.(tree.CallbackTaken)
	switch {
	case over(err):
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
	if _, err = s.Store.Update(settling, c.Session, settle); over(err) {
		return nil // an approval was decided meanwhile
	}
	return err
}

// over says that nobody is to be called any more, or not by this replica.
func over(err error) bool {
	return errors.Is(err, tree.ErrNotDue) || errors.Is(err, tree.ErrNoCallback) || errors.Is(err, tree.ErrNoSession)
}

package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/excerpt"
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
	after := ""
	for look, going := true, true; going; look, going = calling.pause(ctx, tick.C) {
		if look {
			due, next, err := s.Store.DueCallbacks(ctx, after, callbacksSeenOfHost, callbacksSeen)
			if err != nil && ctx.Err() == nil {
				s.Logger.WarnContext(ctx, "looking for callbacks failed", "error", err)
			}
			after = next
			calling.found(due, next != "")
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
	runs    map[calledRun]bool
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

// calledRun is the run that a callback is about.
type calledRun struct {
	session tree.SessionID
	run     tree.ChildRun
}

func newCalling() *calling {
	return &calling{runs: map[calledRun]bool{}, hosts: map[string]int{}, ended: make(chan call, callbacksAtOnce)}
}

func calledBy(c *store.Callback) calledRun {
	return calledRun{c.Session, tree.ChildRun{Task: c.Task, Run: c.Run}}
}

// hostOf gives whom a callback calls.
func hostOf(c *store.Callback) string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return c.URL
	}
	return strings.ToLower(u.Host)
}

// found takes what a look has found to be due, in place of what the look before has found;
// others says that it was not at all hosts.
func (c *calling) found(due []store.Callback, others bool) {
	c.waiting, c.more, c.soon = nil, false, nil
	for i := range due {
		if !c.runs[calledBy(&due[i])] {
			c.waiting = append(c.waiting, call{due[i], hostOf(&due[i])})
		}
	}
	if others {
		c.soon = time.After(callbacksSoon)
	}
}

// begin gives the callbacks that are under way from now on, of those that wait. A host that
// has fewer calls goes before one that has more.
func (c *calling) begin() (now []call) {
	for most := 1; most <= callbacksOfHost; most++ {
		c.waiting = slices.DeleteFunc(c.waiting, func(next call) bool {
			if len(c.runs) == callbacksAtOnce || c.hosts[next.host] >= most {
				return false
			}
			c.runs[calledBy(&next.Callback)] = true
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
	delete(c.runs, calledBy(&called.Callback))
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
		Task: c.Task, Run: c.Run, Lease: s.Callbacks.Timeout + callbackMargin, MaxTries: s.Callbacks.MaxTries,
	})
	taken, ours := answer.(tree.CallbackTaken)
	switch {
	case errors.Is(err, tree.ErrNotDue) || errors.Is(err, tree.ErrNoCallback) || errors.Is(err, tree.ErrNoSession):
		return nil
	case err != nil || !ours:
		return err
	}
	body, err := s.callbackBody(ctx, c)
	if err != nil {
		return err
	}
	key := fmt.Sprintf("%s/%s/%d", c.Session, c.Task, c.Run)
	called := s.Callbacks.Call(ctx, taken.Callback.URL, key, body)
	settle := tree.SettleCallback{
		Task: c.Task, Run: c.Run, Try: taken.Callback.Tries, MaxTries: s.Callbacks.MaxTries,
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
	_, err = s.Store.Update(settling, c.Session, settle)
	return err
}

// maxCallbackResult bounds the answer in the body of a call, in bytes.
const maxCallbackResult = 32 << 10

// endOf is as much of a text as is sent: answers conclude at the end.
func endOf(text string) (_ string, cut bool) {
	return excerpt.Tail(text, maxCallbackResult), len(text) > maxCallbackResult
}

// ended is the body of a call.
type ended struct {
	Event     string     `json:"event"` // "task.ended"
	Session   string     `json:"session_id"`
	Task      string     `json:"task_id"`
	Run       int        `json:"run"`
	Agent     string     `json:"agent"`
	Status    string     `json:"status"`
	Reason    string     `json:"reason,omitempty"`
	Detail    string     `json:"detail,omitempty"`
	Result    string     `json:"result,omitempty"`
	ResultCut bool       `json:"result_cut,omitempty"`
	Words     string     `json:"unfinished,omitempty"`
	WordsCut  bool       `json:"unfinished_cut,omitempty"`
	ToolUses  int        `json:"tool_uses"`
	Usage     endedUsage `json:"usage"`
	Accepted  time.Time  `json:"accepted_at"`
	Ended     time.Time  `json:"ended_at"`
}

type endedUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Cost       int64 `json:"cost_micros"` // of the priced tokens, in millionths of a US dollar
	Priced     int64 `json:"priced_tokens"`
}

// callbackBody says how a run has ended: the same bytes for each try, since an
// outcome never changes.
func (s *Service) callbackBody(ctx context.Context, c *store.Callback) ([]byte, error) {
	outcome, err := s.Store.Outcome(ctx, c.Session, tree.ChildRun{Task: c.Task, Run: c.Run})
	if err != nil {
		return nil, fmt.Errorf("reading the outcome: %w", err)
	}
	task, err := s.Store.Task(ctx, c.Session, c.Task)
	if err != nil {
		return nil, err
	}
	r := &outcome.Run
	body := ended{
		Event: "task.ended", Session: c.Session.String(), Task: c.Task.String(), Run: c.Run, Agent: task.Agent,
		Status: r.State.String(), Reason: r.Reason.String(), Detail: r.Detail, ToolUses: r.ToolUses,
		Usage:    endedUsage{r.Usage.Input, r.Usage.Output, r.Usage.CacheRead, r.Usage.CacheWrite, r.Usage.Cost, r.Usage.Priced},
		Accepted: r.AcceptedAt.UTC(), Ended: r.EndedAt.UTC(),
	}
	body.Result, body.ResultCut = endOf(outcome.Answer)
	body.Words, body.WordsCut = endOf(outcome.Words)
	return json.Marshal(body)
}

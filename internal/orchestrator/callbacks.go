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

// Callbacks are looked for each callbacksEvery, or callbacksSoon after a call has ended if
// some had to wait. One replica makes callbacksAtOnce at the same time, and callbacksOfHost
// to one host: a host that does not answer holds up what it is to hear itself.
const (
	callbacksEvery  = time.Second
	callbacksSoon   = 50 * time.Millisecond
	callbacksAtOnce = 64
	callbacksOfHost = 4
)

// A look finds this many callbacks, so that those that are under way but not taken yet hide
// neither the next ones of their host nor those of others.
const (
	callbacksSeen       = 4 * callbacksAtOnce
	callbacksSeenOfHost = 2 * callbacksOfHost
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
	for {
		due, err := s.Store.DueCallbacks(ctx, callbacksSeenOfHost, callbacksSeen)
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "looking for callbacks failed", "error", err)
		}
		now, some := calling.begin(due)
		for _, c := range now {
			running.Go(func() {
				defer func() { calling.ended <- c }()
				if err := s.callOne(ctx, &c); err != nil && ctx.Err() == nil {
					// It comes due again when its lease is over.
					s.Logger.WarnContext(ctx, "a callback failed", "session_id", c.Session, "task_id", c.Task, "run", c.Run, "error", err)
				}
			})
		}
		if !calling.pause(ctx, tick.C, some) {
			return nil
		}
	}
}

// calling is the callbacks that are under way.
type calling struct {
	runs  map[calledRun]bool
	hosts map[string]int      // how many calls each host has
	ended chan store.Callback // has room for all
}

// calledRun is the run that a callback is about.
type calledRun struct {
	session tree.SessionID
	run     tree.ChildRun
}

func newCalling() *calling {
	return &calling{map[calledRun]bool{}, map[string]int{}, make(chan store.Callback, callbacksAtOnce)}
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

// begin gives the callbacks of those that are due that are under way from now on, and says
// whether others have to wait. A host that has fewer calls goes before one that has more.
func (c *calling) begin(due []store.Callback) (now []store.Callback, some bool) {
	for most := 1; most <= callbacksOfHost; most++ {
		for i := range due {
			run, host := calledBy(&due[i]), hostOf(&due[i])
			if len(c.runs) == callbacksAtOnce || c.hosts[host] >= most || c.runs[run] {
				continue
			}
			c.runs[run] = true
			c.hosts[host]++
			now = append(now, due[i])
		}
	}
	return now, slices.ContainsFunc(due, func(d store.Callback) bool { return !c.runs[calledBy(&d)] })
}

// end makes room for others.
func (c *calling) end(called store.Callback) {
	delete(c.runs, calledBy(&called))
	host := hostOf(&called)
	if c.hosts[host]--; c.hosts[host] == 0 {
		delete(c.hosts, host)
	}
}

// pause waits until it is time for another look; some says that callbacks wait for room.
// It gives false if ctx ends.
func (c *calling) pause(ctx context.Context, tick <-chan time.Time, some bool) bool {
	var soon <-chan time.Time
	for {
		select {
		case called := <-c.ended:
			c.end(called)
			if some && soon == nil {
				soon = time.After(callbacksSoon)
			}
		case <-soon:
			return true
		case <-tick:
			return true
		case <-ctx.Done():
			return false
		}
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
		Status: r.State.String(), Reason: r.Reason.String(), Detail: r.Detail, Result: outcome.Answer, ToolUses: r.ToolUses,
		Usage:    endedUsage{r.Usage.Input, r.Usage.Output, r.Usage.CacheRead, r.Usage.CacheWrite, r.Usage.Cost, r.Usage.Priced},
		Accepted: r.AcceptedAt.UTC(), Ended: r.EndedAt.UTC(),
	}
	if len(body.Result) > maxCallbackResult {
		body.Result, body.ResultCut = excerpt.Tail(body.Result, maxCallbackResult), true // answers conclude at the end
	}
	return json.Marshal(body)
}

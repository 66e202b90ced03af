package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// Callbacks are looked for each callbacksEvery, and callbacksAtOnce are made at the
// same time by one replica.
const (
	callbacksEvery  = time.Second
	callbacksAtOnce = 16
)

// callbackMargin is how much longer a replica has a callback than the call may
// take, for settling it.
const callbackMargin = 5 * time.Second

// callBack makes the calls that are due, until ctx ends. What is under way then is
// cut off and left to others.
func (s *Service) callBack(ctx context.Context) error {
	room := make(chan struct{}, callbacksAtOnce)
	var calling sync.WaitGroup
	defer calling.Wait()
	tick := time.NewTicker(callbacksEvery)
	defer tick.Stop()
	for {
		due, err := s.Store.DueCallbacks(ctx, callbacksAtOnce)
		if err != nil && ctx.Err() == nil {
			s.Logger.WarnContext(ctx, "looking for callbacks failed", "error", err)
		}
		for _, c := range due {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			calling.Go(func() {
				defer func() { <-room }()
				if err := s.callOne(ctx, &c); err != nil && ctx.Err() == nil {
					// It comes due again when its lease is over.
					s.Logger.WarnContext(ctx, "a callback failed", "session_id", c.Session, "task_id", c.Task, "run", c.Run, "error", err)
				}
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
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
	if cut := len(body.Result) - maxCallbackResult; cut > 0 {
		for cut < len(body.Result) && !utf8.RuneStart(body.Result[cut]) {
			cut++
		}
		body.Result, body.ResultCut = body.Result[cut:], true // the end, where answers conclude
	}
	return json.Marshal(body)
}

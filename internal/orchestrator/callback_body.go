package orchestrator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// maxCallbackResult bounds an answer in the body of a callback, in bytes.
const maxCallbackResult = 32 << 10

// tailOf returns the end of a text that is too long, because answers conclude at the end.
func tailOf(text string) (_ string, cut bool) {
	return excerpt.Tail(text, maxCallbackResult), len(text) > maxCallbackResult
}

// taskEndedBody is the body of a callback at the end of a run.
type taskEndedBody struct {
	Event     string    `json:"event"` // "task.ended"
	Session   string    `json:"session_id"`
	Task      string    `json:"task_id"`
	Run       int       `json:"run"`
	Agent     string    `json:"agent"`
	Status    string    `json:"status"`
	Reason    string    `json:"reason,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Result    string    `json:"result,omitempty"`
	ResultCut bool      `json:"result_cut,omitempty"`
	Words     string    `json:"unfinished,omitempty"`
	WordsCut  bool      `json:"unfinished_cut,omitempty"`
	ToolUses  int       `json:"tool_uses"`
	Usage     usageBody `json:"usage"`
	Accepted  time.Time `json:"accepted_at"`
	Ended     time.Time `json:"ended_at"`
}

type usageBody struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
	Cost       int64 `json:"cost_micros"` // of the priced tokens, in millionths of a US dollar
	Priced     int64 `json:"priced_tokens"`
}

// marshalCallback returns the body of a callback and its idempotency key. Both are the same for
// each try.
func (s *Service) marshalCallback(ctx context.Context, c *store.Callback, a *tree.Approval) (key string, body []byte, err error) {
	if a != nil {
		body, err = s.marshalApprovalAsked(ctx, c.Session, a)
		return fmt.Sprintf("%s/%s", c.Session, c.Approval), body, err
	}
	body, err = s.marshalTaskEnded(ctx, c)
	return fmt.Sprintf("%s/%s/%d", c.Session, c.Task, c.Run), body, err
}

// approvalAskedBody is the body of a callback for an approval.
type approvalAskedBody struct {
	Event    string    `json:"event"` // "approval.asked"
	Session  string    `json:"session_id"`
	Task     string    `json:"task_id"`
	Run      int       `json:"run"`
	Agent    string    `json:"agent"`
	Approval string    `json:"approval_id"`
	Tool     string    `json:"tool"`
	Argument string    `json:"argument"`
	Cut      int       `json:"argument_cut,omitempty"` // bytes that are left out
	Rules    []string  `json:"rules"`
	Asked    time.Time `json:"asked_at"`
	Expires  time.Time `json:"expires_at,omitzero"`
}

// marshalApprovalAsked returns the body for an approval. It is the same for each try.
func (s *Service) marshalApprovalAsked(ctx context.Context, session tree.SessionID, a *tree.Approval) ([]byte, error) {
	task, err := s.Store.Task(ctx, session, a.Task)
	if err != nil {
		return nil, err
	}
	return json.Marshal(approvalAskedBody{
		Event: "approval.asked", Session: session.String(), Task: a.Task.String(), Run: a.Run, Agent: task.Agent,
		Approval: a.ID.String(), Tool: a.Tool, Argument: a.Argument, Cut: a.Cut, Rules: a.Rules, Asked: a.AskedAt.UTC(), Expires: a.Due.UTC(),
	})
}

// marshalTaskEnded returns the body for the end of a run. It is the same for each try, because an
// outcome never changes.
func (s *Service) marshalTaskEnded(ctx context.Context, c *store.Callback) ([]byte, error) {
	outcome, err := s.Store.Outcome(ctx, c.Session, tree.ChildRun{Task: c.Task, Run: c.Run})
	if err != nil {
		return nil, fmt.Errorf("reading the outcome: %w", err)
	}
	task, err := s.Store.Task(ctx, c.Session, c.Task)
	if err != nil {
		return nil, err
	}
	r := &outcome.Run
	body := taskEndedBody{
		Event: "task.ended", Session: c.Session.String(), Task: c.Task.String(), Run: c.Run, Agent: task.Agent,
		Status: r.State.String(), Reason: r.Reason.String(), Detail: r.Detail, ToolUses: r.ToolUses,
		Usage:    usageBody{r.Usage.Input, r.Usage.Output, r.Usage.CacheRead, r.Usage.CacheWrite, r.Usage.Cost, r.Usage.Priced},
		Accepted: r.AcceptedAt.UTC(), Ended: r.EndedAt.UTC(),
	}
	body.Result, body.ResultCut = tailOf(outcome.Answer)
	body.Words, body.WordsCut = tailOf(outcome.Words)
	return json.Marshal(body)
}

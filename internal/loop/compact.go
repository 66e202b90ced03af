package loop

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// compactProse is the prompt for a summary.
//
//go:embed compact.md
var compactProse string

// summaryHead is the beginning of a summary message.
const summaryHead = "What came before was summed up, since the conversation has become long. The summary:\n\n"

// minCompactShare is the share of the threshold, as a divisor, that the older part has to exceed to be
// summarised. If it is shorter, it is not what makes the conversation long: often it is the task
// alone, which a model must not forget in favour of a summary that saves nothing.
const minCompactShare = 10

// compact summarises the older part of the conversation if it has become too long. If the provider
// gives no summary, the run continues without one. The error is the journal's.
func (r *runner) compact(ctx context.Context) error {
	threshold := r.compactThreshold()
	if r.BudgetSpent != "" || transcript.EstimateTokens(r.Transcript) < threshold {
		return nil
	}
	if older, _ := transcript.OlderPart(r.Transcript); transcript.EstimateTokens(older) < threshold/minCompactShare {
		return nil
	}
	_, err := r.compactNow(ctx)
	return err
}

// notCompacted is added to the error that ends a run.
const notCompacted = "The conversation is longer than the model takes, and could not be summed up. " +
	"An agent with a smaller compact_at sums up before it comes to that; tasks that there are keep the one they began with."

// handleModelError decides what happens after a failed model call. If the conversation is too long
// for the model, it is summarised, whatever its window was thought to be, and the run continues.
// If nothing is left to summarise, the run ends.
func (r *runner) handleModelError(ctx context.Context, reason tree.Reason, why error) (Outcome, error) {
	detail := why.Error()
	if failed, known := errors.AsType[*model.Error](why); known && failed.Kind == model.ErrorTooLong {
		done, err := r.compactNow(ctx)
		switch {
		case err != nil:
			return Lost, err
		case done:
			return ongoing, nil
		}
		detail += "\n" + notCompacted
	}
	return r.endWithFailure(ctx, reason, detail)
}

// compactNow summarises the older part of the conversation, if there is one. A summary takes one
// model call and is recorded like any other message, so a crash repeats at most that call. The
// error is the journal's.
func (r *runner) compactNow(ctx context.Context) (done bool, _ error) {
	older, upTo := transcript.OlderPart(r.Transcript)
	if !r.CanCompact || r.summaryFailed || len(older) == 0 {
		return false, nil
	}
	r.Journal.Report("sums up the conversation so far")
	summary, err := r.summarise(ctx, older)
	if ctx.Err() != nil {
		return false, ErrLost
	}
	if err != nil {
		r.summaryFailed = true
		r.Logger.WarnContext(ctx, "summarising the conversation failed", "error", err)
		return false, nil
	}
	reply, err := r.Journal.Compact(upTo, summary).Wait(ctx)
	if err != nil {
		return false, err
	}
	summary.Ordinal, summary.UpTo = reply.Ordinal, upTo
	r.Transcript = transcript.Visible(append(r.Transcript, *summary))
	if b := reply.Boundary; b != nil { // replicas of the previous release return none
		r.BudgetSpent, r.BudgetShort = b.BudgetSpent, b.BudgetShort
	}
	return true, nil
}

// compactThreshold is the number of tokens from which on the conversation is summarised. If the
// run names no model, the window of the model that answered last counts.
func (r *runner) compactThreshold() int64 {
	if r.CompactAt > 0 {
		return int64(r.CompactAt)
	}
	return int64(model.CompactAt(cmp.Or(r.ModelName, transcript.LastModel(r.Transcript))))
}

// summarise asks the model to summarise messages. It asks in the same conversation, which a
// provider has cached, and with the same tools, of which the model must use none. Only a complete
// answer without calls is accepted: what it lacks is lost to the model.
func (r *runner) summarise(ctx context.Context, older []tree.Message) (*tree.Message, error) {
	request := tree.Message{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: compactProse}}}
	r.keepAlive()
	answer, err := r.Model.Generate(ctx, &model.Request{
		Provider: r.Provider, Model: r.ModelName, System: r.System, Tools: r.specs, Messages: append(older[:len(older):len(older)], request),
		Session: r.Session, Task: r.Task, Agent: r.Agent, Depth: r.Depth,
	}, func(model.Delta) { r.keepAlive() })
	if err != nil {
		return nil, err
	}
	said := tree.Message{Blocks: answer.Blocks}
	switch {
	case answer.Stop == tree.StopRefusal:
		return nil, errors.New("the model declined")
	case answer.Stop == tree.StopMaxTokens:
		return nil, errors.New("the summary was cut at the limit of its length")
	case len(transcript.Calls(&said)) > 0:
		return nil, errors.New("the model called a tool instead")
	}
	text := strings.TrimSpace(r.clean(said.Text()))
	if text == "" {
		return nil, errors.New("the model's answer has no text")
	}
	text = summaryHead + text
	if len(text) > r.MaxPartBytes {
		return nil, fmt.Errorf("the summary has %d bytes, the bound is %d", len(text), r.MaxPartBytes)
	}
	return &tree.Message{
		Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: text}},
		Model: r.clean(answer.Model), Usage: answer.Usage, Stop: answer.Stop,
	}, nil
}

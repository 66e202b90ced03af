package tree

import (
	"bytes"
	"fmt"
	"math"
	"slices"
)

// Budget is what all tasks of a session may use together. It is checked before each model call:
// once it is spent, runs end instead of calling.
//
// Usage is counted when answers are stored. Until then each run with a worker reserves the
// estimated usage of a call ([Session.CallEstimate]), and no more runs are with workers than the
// rest of the budget covers ([Session.Cap]); one run is always allowed. So the budget is exceeded
// only by what calls use beyond their estimates, and the number of model calls is never exceeded.
type Budget struct {
	Tokens     int64 // of all kinds; 0: no limit
	Cost       int64 // of tokens with a price, see [Usage]; 0: no limit
	ModelCalls int64 // see [Session]; 0: no limit
}

// Within is the budget, limited to what another budget leaves.
func (b Budget) Within(most Budget) Budget {
	return Budget{
		Tokens: within(b.Tokens, most.Tokens), Cost: within(b.Cost, most.Cost), ModelCalls: within(b.ModelCalls, most.ModelCalls),
	}
}

func within(n, most int64) int64 {
	if n == 0 || most > 0 && n > most {
		return most
	}
	return n
}

// Check refuses a negative budget.
func (b Budget) Check() error {
	if min(b.Tokens, b.Cost, b.ModelCalls) < 0 {
		return ErrBadInput.With("a budget must not be negative")
	}
	return nil
}

// spent says how the budget is used up; empty if it is not.
func (s *Session) spent() string {
	switch {
	case s.Budget.Tokens > 0 && s.Usage.Total() >= s.Budget.Tokens:
		return fmt.Sprintf("the session has used %d tokens, its budget is %d", s.Usage.Total(), s.Budget.Tokens)
	case s.Budget.Cost > 0 && s.Usage.Cost >= s.Budget.Cost:
		return fmt.Sprintf("the session has cost $%.4f, its budget is $%.4f", dollars(s.Usage.Cost), dollars(s.Budget.Cost))
	case s.Budget.ModelCalls > 0 && s.ModelCalls >= s.Budget.ModelCalls:
		return fmt.Sprintf("the session's model calls have reached %d, its budget is %d", s.ModelCalls, s.Budget.ModelCalls)
	}
	return ""
}

// wouldSpendBudget reports whether the budget is spent once an answer is counted.
func (d *decision) wouldSpendBudget(answer *Message) bool {
	after := *d.session()
	after.Usage = after.Usage.Add(answer.Usage)
	after.ModelCalls++
	return after.spent() != ""
}

// estimateDecay is how fast an estimate falls when a call uses less: by one part in so many.
const estimateDecay = 8

// updateEstimate updates the estimate after a call: the next call is expected to use as much as
// this one, or nearly as much as more expensive ones shortly before. Only sessions with a budget
// have an estimate.
func (s *Session) updateEstimate(u Usage) {
	if s.Budget == (Budget{}) {
		return
	}
	s.CallEstimate.Tokens = max(u.Total(), s.CallEstimate.Tokens-s.CallEstimate.Tokens/estimateDecay)
	s.CallEstimate.Cost = max(u.Cost, s.CallEstimate.Cost-s.CallEstimate.Cost/estimateDecay)
}

// Reserved is the estimated usage of the calls of all runs with workers.
func (s *Session) Reserved() Budget {
	n := int64(s.Running)
	reserved := Budget{Tokens: n * s.CallEstimate.Tokens, Cost: n * s.CallEstimate.Cost}
	if s.Budget.ModelCalls > 0 {
		reserved.ModelCalls = n
	}
	return reserved
}

// Cap is how many tasks may be with workers at once: at most Limits.Running, and no more than can
// make one call each with the rest of the budget, but at least one. Once the budget is spent, no
// model is called, and only Limits.Running counts, so that all runs can end.
func (s *Session) Cap() int {
	most := s.Limits.Running
	if s.spent() != "" {
		return most
	}
	most = affordable(most, s.Budget.Tokens-s.Usage.Total(), s.Budget.Tokens, s.CallEstimate.Tokens)
	most = affordable(most, s.Budget.ModelCalls-s.ModelCalls, s.Budget.ModelCalls, 1)
	return affordable(most, s.Budget.Cost-s.Usage.Cost, s.Budget.Cost, s.CallEstimate.Cost)
}

func affordable(most int, left, budget, call int64) int {
	if budget == 0 || call == 0 {
		return most
	}
	return max(1, int(min(int64(most), left/call)))
}

// mustYield reports whether a running task has to yield before it calls a model. That is so if more
// tasks run than the budget covers. It is also so for a background task if the budget covers just
// those that run, and others wait.
func (s *Session) mustYield(t *Task) bool {
	most := s.Cap()
	return s.Running > most || t.Priority > 0 && s.Pending > 0 && s.Running == most && most < s.Limits.Running
}

// dollars converts millionths of a dollar.
func dollars(micros int64) float64 { return float64(micros) / 1e6 }

// maxDollars is the maximum of a cost in a budget.
const maxDollars = 1e9

// Micros converts dollars of a budget to millionths, rounded up.
func Micros(dollars float64) (int64, error) {
	if !(dollars >= 0 && dollars <= maxDollars) { // also refuses NaN
		return 0, fmt.Errorf("it must be from 0 to %.f", maxDollars)
	}
	return int64(math.Ceil(dollars * 1e6)), nil
}

// unblocks reports whether another budget allows model calls again.
func (s *Session) unblocks(b Budget) bool {
	with := *s
	with.Budget = b
	return s.spent() != "" && with.spent() == ""
}

// setBudget changes the session's budget. Roots and branches whose news has waited for that start
// their next runs.
func (d *decision) setBudget(b Budget) {
	s := d.session()
	if b == s.Budget {
		return
	}
	revived := s.unblocks(b)
	s.Budget = b
	if b == (Budget{}) {
		s.CallEstimate = Budget{}
	}
	d.emitOutsideRun(d.view.task(s.Root), SessionChanged{Change: SessionBudgeted, Budget: b})
	if !revived {
		return
	}
	waiting := slices.DeleteFunc(d.view.all(), func(t *Task) bool {
		return t.Depth > 0 || t.Inbox == 0 || t.State.Active() || t.State == StateCancelled || !d.newsMayStartRun(t)
	})
	slices.SortFunc(waiting, func(a, b *Task) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for _, t := range waiting {
		d.nextTurn(t)
	}
}

func (n *needs) setBudget(b *Budget) {
	if b == nil || n.root() == nil || !n.view.session.unblocks(*b) {
		return
	}
	n.below(TaskID{})
	for _, t := range n.view.all() {
		if t.Depth == 0 {
			n.boundary(t)
		}
	}
}

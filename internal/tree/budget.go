package tree

import (
	"bytes"
	"fmt"
	"slices"
)

// Budget is what all tasks of a session may use together. It is looked at before each call
// of a model: once it is spent, runs end instead of calling.
//
// Calls are paid for when their answers are stored. Until then each run that is with a worker
// has reserved what a call is reckoned to take ([Session.Reckoned]), and no more runs are
// with workers than there is left for ([Session.Cap]); one alone always may be. So more is
// spent than the budget only by what calls take beyond what they were reckoned to, and no
// more calls are made than it has.
type Budget struct {
	Tokens     int64 // of all kinds; 0: no bound
	Cost       int64 // of what has a price, as in [Usage]; 0: no bound
	ModelCalls int64 // as in [Session]; 0: no bound
}

// Within is the budget, but no more than another one leaves.
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

// Check refuses a budget that makes no sense.
func (b Budget) Check() error {
	if min(b.Tokens, b.Cost, b.ModelCalls) < 0 {
		return ErrBadInput.With("a budget is negative")
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
		return fmt.Sprintf("the session has made %d model calls, its budget is %d", s.ModelCalls, s.Budget.ModelCalls)
	}
	return ""
}

// wouldSpendBudget reports whether an answer uses up the budget, or what there was did.
func (d *decision) wouldSpendBudget(answer *Message) bool {
	after := *d.session()
	after.Usage = after.Usage.Add(answer.Usage)
	after.ModelCalls++
	return after.spent() != ""
}

// estimateDecay is how much of what a call was reckoned to take stays when one takes less: all
// but one part in so many.
const estimateDecay = 8

// updateEstimate learns from what a call has taken: the next one is reckoned to take as much, or what
// dearer ones took lately. Only a session with a budget wants to know.
func (s *Session) updateEstimate(u Usage) {
	if s.Budget == (Budget{}) {
		return
	}
	s.CallEstimate.Tokens = max(u.Total(), s.CallEstimate.Tokens-s.CallEstimate.Tokens/estimateDecay)
	s.CallEstimate.Cost = max(u.Cost, s.CallEstimate.Cost-s.CallEstimate.Cost/estimateDecay)
}

// Reserved is what the calls of the runs that are with workers are reckoned to take.
func (s *Session) Reserved() Budget {
	n := int64(s.Running)
	reserved := Budget{Tokens: n * s.CallEstimate.Tokens, Cost: n * s.CallEstimate.Cost}
	if s.Budget.ModelCalls > 0 {
		reserved.ModelCalls = n
	}
	return reserved
}

// Cap is how many tasks may be with workers at once: as many as the budget has left for a
// call of each, but one at least. Once it is spent nobody calls, and all of them may end.
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

// mustYield reports whether a task that is with a worker has to make way before it calls a model:
// since more are than the budget has left for, or, of one that nobody waits for, since there
// is left for just those and others wait.
func (s *Session) mustYield(t *Task) bool {
	most := s.Cap()
	return s.Running > most || t.Priority > 0 && s.Pending > 0 && s.Running == most && most < s.Limits.Running
}

// dollars are those that an amount in micros is.
func dollars(micros int64) float64 { return float64(micros) / 1e6 }

// unblocks reports whether models can be called again with another budget.
func (s *Session) unblocks(b Budget) bool {
	with := *s
	with.Budget = b
	return s.spent() != "" && with.spent() == ""
}

// setBudget gives the session another budget. Roots whose news have waited for one go on.
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

package tree

import "fmt"

// Budget is what all tasks of a session may use together. It is looked at before each call
// of a model: once it is spent, runs end instead of calling. Calls that are under way then
// are paid for, so more may be spent by as much as the runs that are with workers use once.
type Budget struct {
	Tokens int64 // of all kinds; 0: no bound
	Cost   int64 // of what has a price, as in [Usage]; 0: no bound
}

// Within is the budget, but no more than another one leaves.
func (b Budget) Within(most Budget) Budget {
	return Budget{Tokens: within(b.Tokens, most.Tokens), Cost: within(b.Cost, most.Cost)}
}

func within(n, most int64) int64 {
	if n == 0 || most > 0 && n > most {
		return most
	}
	return n
}

// Check refuses a budget that makes no sense.
func (b Budget) Check() error {
	if min(b.Tokens, b.Cost) < 0 {
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
	}
	return ""
}

// spends reports whether an answer uses up the budget, or what there was did.
func (d *decision) spends(answer *Message) bool {
	after := *d.session()
	after.Usage = after.Usage.Add(answer.Usage)
	return after.spent() != ""
}

// dollars are those that an amount in micros is.
func dollars(micros int64) float64 { return float64(micros) / 1e6 }

// allot gives the session another budget.
func (d *decision) allot(b Budget) {
	if s := d.session(); b != s.Budget {
		s.Budget = b
		d.emitAside(d.view.task(s.Root), SessionChanged{Change: SessionBudgeted, Budget: b})
	}
}

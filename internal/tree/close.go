package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// CloseSession ends a session: every run under way ends as abandoned, and nothing
// can be asked of it any more; it can still be read. Answer: [Closed].
type CloseSession struct {
	Detail string // why, in the client's words
}

// DeleteSession closes a session, if it is open, and gives its rows up: from then
// on it does not exist, and the store removes it step by step. Answer: [Closed].
type DeleteSession struct {
	// IdleFor deletes the session only if none of its runs is under way and
	// nothing has happened in it for so long; zero deletes it whatever it does.
	IdleFor time.Duration
}

// ChangeSession gives a session another title or budget. Answer: [Done].
type ChangeSession struct {
	Title  string  // empty: as it is
	Budget *Budget // nil: as it is
}

// Closed says how many runs the end of a session has ended.
type Closed struct{ Runs int }

func (Closed) isAnswer() {}

// allowedWhenClosed reports whether a command means something in a session that is closed.
// What workers say there is stale, as everywhere after a run's end.
func allowedWhenClosed(cmd Command) bool {
	switch cmd.(type) {
	case ofWorker, CreateSession, CloseSession, DeleteSession, Redeliver, Expire, Claim, Reattach, TakeCallback, SettleCallback,
		DecideApproval: // of which only repeats are left
		return true
	}
	return false
}

// mayDecide refuses what is asked of a session that is not there any more.
func (v *View) mayDecide(cmd Command) error {
	_, creates := cmd.(CreateSession)
	switch s := v.session; {
	case s == nil && creates:
		return nil
	case s == nil:
		return ErrNoSession
	case !s.DeletedAt.IsZero() && creates:
		return ErrDeleting
	case !s.DeletedAt.IsZero():
		return ErrNoSession
	case !s.ClosedAt.IsZero() && !allowedWhenClosed(cmd):
		return ErrClosed
	}
	return nil
}

func (c CloseSession) needs(n *needs) { n.closeSession() }

func (c CloseSession) decide(d *decision) (Answer, error) {
	if !d.session().ClosedAt.IsZero() {
		return Closed{}, nil
	}
	detail := excerpt.Short(c.Detail, maxDetail)
	return Closed{Runs: d.closeSession(detail)}, nil
}

func (c DeleteSession) needs(n *needs) { n.closeSession() }

func (c DeleteSession) decide(d *decision) (Answer, error) {
	s := d.session()
	if c.IdleFor > 0 && (s.liveRuns() > 0 || d.env.Now.Sub(s.UpdatedAt) < c.IdleFor) {
		return nil, ErrInUse
	}
	runs := 0
	if s.ClosedAt.IsZero() {
		runs = d.closeSession("the session was deleted")
	}
	s.DeletedAt = d.env.Now
	d.emitOutsideRun(d.view.task(s.Root), SessionChanged{Change: SessionDeleted})
	return Closed{Runs: runs}, nil
}

func (c ChangeSession) needs(n *needs) {
	n.root()
	n.setBudget(c.Budget)
}

func (c ChangeSession) decide(d *decision) (Answer, error) {
	if err := checkName("the title", c.Title); err != nil {
		return nil, err
	}
	if c.Title == "" && c.Budget == nil {
		return nil, ErrEmpty.With("title")
	}
	if c.Budget != nil {
		if err := c.Budget.Check(); err != nil {
			return nil, err
		}
		d.setBudget(*c.Budget)
	}
	if c.Title != "" && c.Title != d.session().Title {
		d.rename(c.Title)
	}
	return Done{}, nil
}

func (d *decision) rename(title string) {
	s := d.session()
	s.Title = title
	d.emitOutsideRun(d.view.task(s.Root), SessionChanged{Change: SessionRenamed, Title: title})
}

// closeSession ends all runs. Nobody is told of an end, since nobody can go on.
func (d *decision) closeSession(detail string) int {
	runs := d.cancelRuns(d.view.all(), ReasonAbandoned, detail)
	s := d.session()
	s.ClosedAt = d.env.Now
	d.emitOutsideRun(d.view.task(s.Root), SessionChanged{Change: SessionClosed})
	return runs
}

func (n *needs) closeSession() {
	if n.root() != nil && n.view.session.liveRuns() > 0 {
		n.below(TaskID{})
		n.cancelRuns(n.view.all())
	}
}

// root asks for the root.
func (n *needs) root() *Task {
	if n.view.session == nil {
		return nil
	}
	return n.task(n.view.session.Root)
}

// all gives the tasks that the view holds, in no order: those of the whole session
// once everything was asked for, since branches hang off nobody.
func (v *View) all() []*Task {
	var all []*Task
	for _, t := range v.tasks {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}

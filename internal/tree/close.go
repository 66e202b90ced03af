package tree

import (
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// CloseSession ends a session. All runs under way end as abandoned, and no further work is
// accepted. The session can still be read. Answer: [Closed].
type CloseSession struct {
	Detail string // the client's reason
}

// DeleteSession closes a session, if it is open, and marks its rows for removal. From then on the
// session does not exist, and the store removes its rows step by step. Answer: [Closed].
type DeleteSession struct {
	// IdleFor deletes the session only if no run is under way and nothing has changed for so long;
	// zero deletes it unconditionally.
	IdleFor time.Duration
}

// ChangeSession changes the title or the budget of a session. Answer: [Done].
type ChangeSession struct {
	Title  string  // empty: unchanged
	Budget *Budget // nil: unchanged
}

// Closed says how many runs were ended.
type Closed struct{ Runs int }

func (Closed) isAnswer() {}

// allowedWhenClosed reports whether a command is decided in a closed session. Requests of workers
// are stale there, as after the end of any run.
func allowedWhenClosed(cmd Command) bool {
	switch cmd.(type) {
	case ofWorker, CreateSession, CloseSession, DeleteSession, Redeliver, Expire, Claim, Reattach, TakeCallback, SettleCallback,
		DecideApproval: // only repeats can succeed
		return true
	}
	return false
}

// mayDecide refuses commands to a session that does not exist, is closed, or is being deleted.
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

// closeSession ends all runs, without news: no task can continue.
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

// all gives all tasks that the view holds, in no order. After asking for the tasks below the zero
// id, these are the tasks of the whole session; branches have no parent.
func (v *View) all() []*Task {
	var all []*Task
	for _, t := range v.tasks {
		if t != nil {
			v.mayChange(t)
			all = append(all, t)
		}
	}
	return all
}

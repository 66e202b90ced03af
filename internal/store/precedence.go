package store

import (
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// precedence is which runs of a session go before others of it. Whose turn it is the tags say alone:
// a run that goes first has the turn of the one that has waited for it, and that one gets its
// tag. So a session has as many turns as without, at the same times.
type precedence struct {
	hasPrecedence bool                    // some runs go before others
	byPrecedence  map[sessionLine][]Ready // those that do, of the lines that were read; the first one first
	chosen        map[tree.TaskID]bool    // those that were chosen
	retagged      map[tree.TaskID]Ready   // those that have other tags now
}

// sessionLine names the ready runs of a session that have one priority.
type sessionLine struct {
	session  tree.SessionID
	priority int
}

// linesToRead gives the lines of which is to be read what goes first, if anything does: those of the runs
// whose turns may come.
func (p *pick) linesToRead() (args [][]any) {
	if !p.hasPrecedence {
		return nil
	}
	for _, w := range p.queues {
		for _, c := range w.runs {
			l := sessionLine{c.Session, c.Priority}
			if _, known := p.byPrecedence[l]; !known && c.free > 0 {
				p.byPrecedence[l] = nil
				args = append(args, []any{idColumn(&l.session), l.priority, min(p.room, c.free)})
			}
		}
	}
	return args
}

func (p *pick) scanFirst(row row) error {
	var r Ready
	err := row.Scan(readyRow(&r)...)
	l := sessionLine{r.Session, r.Priority}
	p.byPrecedence[l] = append(p.byPrecedence[l], r)
	return err
}

// runForTurn gives the run that goes when the turn of one has come: that one, or another of its
// session that goes before it. What was announced before has its place.
func (p *pick) runForTurn(w *queueState, c candidate) Ready {
	if !p.hasPrecedence {
		return c.Ready
	}
	next := c.Ready
	if f := p.firstOf(sessionLine{c.Session, c.Priority}); f != nil && c.announcedUntil <= 0 && f.Precedence > c.Precedence {
		next = *f
		p.swapTurns(w, &next, c)
	}
	p.chosen[next.Task] = true
	return next
}

// firstOf gives what goes first of a line, if it is known and has not gone.
func (p *pick) firstOf(l sessionLine) *Ready {
	p.byPrecedence[l] = slices.DeleteFunc(p.byPrecedence[l], func(r Ready) bool { return p.chosen[r.Task] })
	if len(p.byPrecedence[l]) == 0 {
		return nil
	}
	return &p.byPrecedence[l][0]
}

// swapTurns lets a run go in the turn of another, which has its place then. Where that is not among
// what was read, it comes up in another pick.
func (p *pick) swapTurns(w *queueState, first *Ready, turn candidate) {
	first.fairTag, turn.fairTag = turn.fairTag, first.fairTag
	p.retagged[turn.Task], p.retagged[first.Task] = turn.Ready, *first
	waiting := p.byPrecedence[sessionLine{turn.Session, turn.Priority}]
	if i := slices.IndexFunc(waiting, func(r Ready) bool { return r.Task == turn.Task }); i >= 0 {
		waiting[i] = turn.Ready
	}
	i := slices.IndexFunc(w.runs, func(c candidate) bool { return c.Task == first.Task })
	if i < 0 {
		return
	}
	w.take(i)
	w.runs = slices.Insert(w.runs, i, turn)
	if turn.announcedUntil == 0 {
		w.due++
	}
}

// retaggedRows gives what is to be written of the runs that have other tags now, and forgets it.
func (p *pick) retaggedRows() (rows [][]any) {
	for _, r := range p.retagged {
		rows = append(rows, []any{r.fairTag, idColumn(&r.Session), idColumn(&r.Task), r.Epoch})
	}
	clear(p.retagged)
	return rows
}

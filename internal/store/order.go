package store

import (
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// order is which runs of a session go before others of it. Whose turn it is the tags say alone:
// a run that goes first has the turn of the one that has waited for it, and that one gets its
// tag. So a session has as many turns as without, at the same times.
type order struct {
	ordered bool                  // some runs go before others
	first   map[line][]Ready      // those that do, of the lines that were read; the first one first
	gone    map[tree.TaskID]bool  // those that were chosen
	later   map[tree.TaskID]Ready // those that have other tags now
}

// line names the ready runs of a session that have one priority.
type line struct {
	session  tree.SessionID
	priority int
}

// toOrder gives the lines of which is to be read what goes first, if anything does: those of the runs
// whose turns may come.
func (p *pick) toOrder() (args [][]any) {
	if !p.ordered {
		return nil
	}
	for _, w := range p.queues {
		for _, c := range w.runs {
			l := line{c.Session, c.Priority}
			if _, known := p.first[l]; !known && c.free > 0 {
				p.first[l] = nil
				args = append(args, []any{idColumn(&l.session), l.priority, min(p.room, c.free)})
			}
		}
	}
	return args
}

func (p *pick) readFirst(row row) error {
	var r Ready
	err := row.Scan(readyRow(&r)...)
	l := line{r.Session, r.Priority}
	p.first[l] = append(p.first[l], r)
	return err
}

// inTurn gives the run that goes when the turn of one has come: that one, or another of its
// session that goes before it. What was announced before has its place.
func (p *pick) inTurn(w *waiting, c candidate) Ready {
	if !p.ordered {
		return c.Ready
	}
	next := c.Ready
	if f := p.firstOf(line{c.Session, c.Priority}); f != nil && c.announcedUntil <= 0 && f.Precedence > c.Precedence {
		next = *f
		p.trade(w, &next, c)
	}
	p.gone[next.Task] = true
	return next
}

// firstOf gives what goes first of a line, if it is known and has not gone.
func (p *pick) firstOf(l line) *Ready {
	p.first[l] = slices.DeleteFunc(p.first[l], func(r Ready) bool { return p.gone[r.Task] })
	if len(p.first[l]) == 0 {
		return nil
	}
	return &p.first[l][0]
}

// trade lets a run go in the turn of another, which has its place then. Where that is not among
// what was read, it comes up in another pick.
func (p *pick) trade(w *waiting, first *Ready, turn candidate) {
	first.fairTag, turn.fairTag = turn.fairTag, first.fairTag
	p.later[turn.Task], p.later[first.Task] = turn.Ready, *first
	waiting := p.first[line{turn.Session, turn.Priority}]
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

// traded gives what is to be written of the runs that have other tags now, and forgets it.
func (p *pick) traded() (rows [][]any) {
	for _, r := range p.later {
		rows = append(rows, []any{r.fairTag, idColumn(&r.Session), idColumn(&r.Task), r.Epoch})
	}
	clear(p.later)
	return rows
}

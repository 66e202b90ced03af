package store

import (
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// precedence decides which runs of a session go before others of it. Only the tags decide whose
// turn it is: a run with precedence takes the turn of the run that has waited for it, and that run
// gets its tag. So a session has the same turns at the same times as without precedence.
type precedence struct {
	hasPrecedence bool                    // some runs have precedence
	byPrecedence  map[sessionLine][]Ready // those runs, of the lines that were read; highest first
	chosen        map[tree.TaskID]bool    // runs that were picked
	retagged      map[tree.TaskID]Ready   // runs with a new tag
}

// sessionLine names the ready runs of one session and priority.
type sessionLine struct {
	session  tree.SessionID
	priority int
}

func (r *Ready) line() sessionLine { return sessionLine{r.Session, r.Priority} }

// lineRead says how many runs with precedence have to be read of a line.
type lineRead struct {
	sessionLine
	limit int
}

// linesToRead gives the lines of which the runs with precedence have to be read: those of the runs
// whose turns may come.
func (p *pick) linesToRead() (lines []lineRead) {
	if !p.hasPrecedence {
		return nil
	}
	for _, w := range p.queues {
		for _, c := range w.runs {
			l := c.line()
			if _, known := p.byPrecedence[l]; !known && c.free > 0 {
				p.byPrecedence[l] = nil
				lines = append(lines, lineRead{l, min(p.room, c.free)})
			}
		}
	}
	return lines
}

func (p *pick) scanFirst(row row) error {
	var r Ready
	err := row.Scan(readyRow(&r)...)
	l := r.line()
	p.byPrecedence[l] = append(p.byPrecedence[l], r)
	return err
}

// runForTurn gives the run that takes a turn: the run whose turn it is, or another of its session
// with a higher precedence. A run that was announced before keeps its place.
func (p *pick) runForTurn(w *queueState, c candidate) Ready {
	if !p.hasPrecedence {
		return c.Ready
	}
	next := c.Ready
	if f := p.firstOf(c.line()); f != nil && c.announcedUntil <= 0 && f.Precedence > c.Precedence {
		next = *f
		p.swapTurns(w, &next, c)
	}
	p.chosen[next.Task] = true
	return next
}

// firstOf gives the first run of a line, among those that are known and not chosen yet.
func (p *pick) firstOf(l sessionLine) *Ready {
	p.byPrecedence[l] = slices.DeleteFunc(p.byPrecedence[l], func(r Ready) bool { return p.chosen[r.Task] })
	if len(p.byPrecedence[l]) == 0 {
		return nil
	}
	return &p.byPrecedence[l][0]
}

// swapTurns gives a run the turn of another run, which takes its place in exchange. If that place
// was not read, the other run comes up in a later pick.
func (p *pick) swapTurns(w *queueState, first *Ready, turn candidate) {
	first.fairTag, turn.fairTag = turn.fairTag, first.fairTag
	p.retagged[turn.Task], p.retagged[first.Task] = turn.Ready, *first
	waiting := p.byPrecedence[turn.line()]
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

// retaggedRows gives the updates of the runs with a new tag, and forgets them.
func (p *pick) retaggedRows() (rows [][]any) {
	for _, r := range p.retagged {
		rows = append(rows, []any{r.fairTag, idColumn(&r.Session), idColumn(&r.Task), r.Epoch})
	}
	clear(p.retagged)
	return rows
}

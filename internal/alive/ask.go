package alive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
)

// IfDead calls do, once and from another goroutine or from this one, if the worker is
// found dead within a time. A stream of it has just broken. Many may ask this of one
// worker: it is asked once for all of them.
func (w *Worker) IfDead(within time.Duration, do func()) {
	if w == nil {
		return
	}
	now := time.Now()
	p := w.prober
	p.mu.Lock()
	if !w.died.IsZero() && now.Sub(w.died) < deadFor {
		p.mu.Unlock()
		do()
		return
	}
	defer p.mu.Unlock()
	if !w.verified {
		return // whatever is heard of it means nothing
	}
	if !w.asked {
		if w.asked = p.begin(w.find); !w.asked {
			return
		}
	} else {
		select {
		case w.broke <- struct{}{}:
		default:
		}
	}
	w.waiting = append(w.waiting, waiter{until: now.Add(within), do: do})
}

// find asks until the worker is found dead, or nobody waits for that any more.
func (w *Worker) find(ctx context.Context) {
	for wait := askAgainFirst; ; {
		said, err := w.ask(ctx, w.prober.deaths, askPatience)
		w.prober.Logger.DebugContext(ctx, "a worker whose stream broke was asked", "worker_id", w.id, "answer", said, "error", err)
		if said == nobody || said == another {
			w.bury()
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, askAgainMost)
		case <-w.broke:
			// It may be dying only now.
			wait = askAgainFirst
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil || w.rest() {
			return
		}
	}
}

// bury tells those who wait that the worker is dead.
func (w *Worker) bury() {
	p := w.prober
	p.Died(w.id)
	p.mu.Lock()
	waiting := w.waiting
	w.waiting, w.asked, w.died = nil, false, time.Now()
	w.forget()
	p.mu.Unlock()
	for _, one := range waiting {
		if time.Now().Before(one.until) {
			one.do()
		}
	}
}

// rest ends asking if nobody waits any more.
func (w *Worker) rest() bool {
	p := w.prober
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, one := range w.waiting {
		if now.Before(one.until) {
			return false
		}
	}
	w.waiting, w.asked = nil, false
	w.forget()
	return true
}

// verify finds out whether the worker answers under its address.
func (w *Worker) verify(ctx context.Context) {
	said, err := w.ask(ctx, w.prober.firsts, verifyPatience)
	p := w.prober
	p.mu.Lock()
	defer p.mu.Unlock()
	w.verified, w.verifying = said == itself, false
	log := p.Logger.With("worker_id", w.id, "address", w.addr, "answer", said)
	if w.verified {
		log.DebugContext(ctx, "a worker answers where it says")
	} else {
		log.DebugContext(ctx, "a worker does not answer where it says: its runs will wait for the grace", "error", err)
	}
	w.forget()
}

// answer is what comes of a question.
type answer string

const (
	nothing answer = "nothing"        // that would mean anything
	itself  answer = "itself"         // the worker lives
	another answer = "another worker" // which has its place
	nobody  answer = "nobody"         // listens there, on a machine that answers
)

// ask asks once. The error says why nothing was heard.
func (w *Worker) ask(ctx context.Context, turn turns, patience time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return nothing, fmt.Errorf("waiting for the turn to ask: %w", ctx.Err())
	}
	conn, err := w.prober.Dial(ctx, "tcp", w.addr.String())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nobody, nil
	case err != nil:
		return nothing, err
	}
	defer shut(conn)
	defer context.AfterFunc(ctx, func() { shut(conn) })()
	heard, err := io.ReadAll(io.LimitReader(conn, int64(len(line(""))+mostIDBytes)))
	switch {
	case string(heard) == line(w.id):
		return itself, nil
	case err != nil:
		return nothing, fmt.Errorf("listening: %w", err)
	case strings.HasPrefix(string(heard), greeting) && strings.HasSuffix(string(heard), "\n") && len(heard) > len(line("")):
		return another, nil
	}
	return nothing, errors.New("what answers is no worker")
}

// shut closes what was only read from.
func shut(c io.Closer) { c.Close() }

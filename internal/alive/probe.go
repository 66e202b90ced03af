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

// IfDead calls do if the worker is found dead within the given time. Call it when a stream of
// the worker has broken. do is called at most once, from this goroutine or from another.
// Concurrent calls for one worker share one series of probes.
func (w *Worker) IfDead(within time.Duration, do func()) {
	if w == nil {
		return
	}
	now := time.Now()
	p := w.prober
	p.mu.Lock()
	if !w.diedAt.IsZero() && now.Sub(w.diedAt) < deathWindow {
		p.mu.Unlock()
		do()
		return
	}
	defer p.mu.Unlock()
	if !w.verified {
		return // no answer of it would prove anything
	}
	if !w.probing {
		if w.probing = p.start(w.probeUntilDead); !w.probing {
			return
		}
	} else {
		select {
		case w.streamBroke <- struct{}{}:
		default:
		}
	}
	w.waiters = append(w.waiters, waiter{until: now.Add(within), do: do})
}

// probeUntilDead probes until the worker is found dead or all waiters have expired.
func (w *Worker) probeUntilDead(ctx context.Context) {
	for wait := minProbePause; ; {
		said, err := w.probe(ctx, w.prober.deathProbes, probeTimeout)
		w.prober.Logger.DebugContext(ctx, "a worker whose stream broke was asked", "worker_id", w.id, "answer", said, "error", err)
		if said == noListener || said == otherWorker {
			w.declareDead()
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			wait = min(2*wait, maxProbePause)
		case <-w.streamBroke:
			// It may be about to die.
			wait = minProbePause
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil || w.stopIfUnwanted() {
			return
		}
	}
}

// declareDead notifies the waiters that the worker is dead.
func (w *Worker) declareDead() {
	p := w.prober
	p.OnDeath(w.id)
	p.mu.Lock()
	waiting := w.waiters
	w.waiters, w.probing, w.diedAt = nil, false, time.Now()
	w.forgetIfUnused()
	p.mu.Unlock()
	for _, one := range waiting {
		if time.Now().Before(one.until) {
			one.do()
		}
	}
}

// stopIfUnwanted ends the probes if all waiters have expired.
func (w *Worker) stopIfUnwanted() bool {
	p := w.prober
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, one := range w.waiters {
		if now.Before(one.until) {
			return false
		}
	}
	w.waiters, w.probing = nil, false
	w.forgetIfUnused()
	return true
}

// verify checks that the worker answers at its address.
func (w *Worker) verify(ctx context.Context) {
	said, err := w.probe(ctx, w.prober.verifications, verifyTimeout)
	p := w.prober
	p.mu.Lock()
	defer p.mu.Unlock()
	w.verified, w.verifying = said == sameWorker, false
	log := p.Logger.With("worker_id", w.id, "address", w.addr, "answer", said)
	if w.verified {
		log.DebugContext(ctx, "a worker answers where it says")
	} else {
		log.DebugContext(ctx, "a worker does not answer where it says: its runs will wait for the grace", "error", err)
	}
	w.forgetIfUnused()
}

// probeResult is the outcome of a probe.
type probeResult string

const (
	inconclusive probeResult = "nothing"        // proves nothing
	sameWorker   probeResult = "itself"         // the worker is alive
	otherWorker  probeResult = "another worker" // it has taken the port over
	noListener   probeResult = "nobody"         // the machine refuses the connection
)

// probe probes once. The error explains an inconclusive result.
func (w *Worker) probe(ctx context.Context, turn semaphore, patience time.Duration) (probeResult, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		return inconclusive, fmt.Errorf("waiting for the turn to ask: %w", ctx.Err())
	}
	conn, err := w.prober.Dial(ctx, "tcp", w.addr.String())
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return noListener, nil
	case err != nil:
		return inconclusive, err
	}
	defer closeReader(conn)
	defer context.AfterFunc(ctx, func() { closeReader(conn) })()
	heard, err := io.ReadAll(io.LimitReader(conn, int64(len(replyLine(""))+maxIDBytes)))
	switch {
	case string(heard) == replyLine(w.id):
		return sameWorker, nil
	case err != nil:
		return inconclusive, fmt.Errorf("listening: %w", err)
	case strings.HasPrefix(string(heard), greeting) && strings.HasSuffix(string(heard), "\n") && len(heard) > len(replyLine("")):
		return otherWorker, nil
	}
	return inconclusive, errors.New("what answers is no worker")
}

// closeReader closes a connection that was only read from, so an error does not matter.
func closeReader(c io.Closer) { c.Close() }

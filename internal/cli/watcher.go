package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// patience is how long a broken watch is tried again before it is given up.
const retryTimeout = 30 * time.Second

// watching is a watch of a session that goes on where it was when its stream
// breaks.
type watcher struct {
	client        pb.SessionServiceClient
	session       string
	after         int64
	deltas        bool
	untilIdle     bool
	onLost        func(error) // told of a broken stream; may be nil
	denials       *denials    // takes in what was denied; may be nil
	onConnected   func()      // told of a stream that stands; may be nil
	connectedOnce bool        // a stream has brought something
}

// each gives take every step in order, each event once, until the session is
// idle, if that was asked for, or ctx ends.
func (w *watcher) each(ctx context.Context, take func(*pb.WatchSessionResponse) error) (idle *pb.Idle, err error) {
	err = withRetries(ctx, w.connectedOnce, w.onLost, func() (got bool, err error) {
		idle, got, err = w.stream(ctx, take)
		w.connectedOnce = w.connectedOnce || got
		return got, err
	})
	return idle, err
}

// past is each, but for a session that waits for approvals: it goes on until that is over.
func (w *watcher) eachPastBlocks(ctx context.Context, take func(*pb.WatchSessionResponse) error) (idle *pb.Idle, err error) {
	idle, err = w.each(ctx, take)
	for err == nil && idle.GetCause() == pb.IdleCause_IDLE_CAUSE_BLOCKED {
		if err = w.untilEvent(ctx, take); err == nil {
			idle, err = w.each(ctx, take)
		}
	}
	return idle, err
}

// errMoves says that something has happened.
var errEventSeen = errors.New("something has happened")

// moves gives take the steps until one of them is an event, whatever else is or is not to do.
func (w *watcher) untilEvent(ctx context.Context, take func(*pb.WatchSessionResponse) error) error {
	until := w.untilIdle
	w.untilIdle = false
	defer func() { w.untilIdle = until }()
	_, err := w.each(ctx, func(step *pb.WatchSessionResponse) error {
		if err := take(step); err != nil || step.GetEvent() == nil {
			return err
		}
		return errEventSeen
	})
	if errors.Is(err, errEventSeen) {
		return nil
	}
	return err
}

// retried has something done over a stream, and over another one when that breaks. The first
// stream has to work, unless it has begun before; later ones are tried again for a while. lost is told of each that breaks;
// it may be nil.
func withRetries(ctx context.Context, begun bool, lost func(error), over func() (got bool, err error)) error {
	gone := newOutage()
	for {
		tried := time.Now()
		got, err := over()
		if err == nil || ctx.Err() != nil || !isTemporary(err) {
			return err
		}
		if got || wasServed(tried) {
			begun = true
			gone.clear()
		}
		if !begun || gone.isTooLong() {
			return err
		}
		if lost != nil {
			lost(err)
		}
		select {
		case <-time.After(gone.pause.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// outage is a time in which no orchestrator can be reached.
type outage struct {
	since time.Time // zero: somebody was there last
	pause *backoff.ExponentialBackOff
}

func newOutage() *outage { return &outage{pause: newBackOff()} }

// over says that somebody was there.
func (o *outage) clear() {
	o.since = time.Time{}
	o.pause.Reset()
}

// lasts takes in that a try has just failed, and reports whether that has gone on for too long.
func (o *outage) isTooLong() bool {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	return time.Since(o.since) > retryTimeout
}

// held reports whether a call that began then, and has just failed, was with somebody who was
// there although nothing came: a connection that can't be made, or is dead, is noticed sooner.
func wasServed(tried time.Time) bool { return time.Since(tried) > retryTimeout }

// pauses are those between tries to reach an orchestrator again.
func newBackOff() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 100 * time.Millisecond
	pause.MaxInterval = 2 * time.Second
	return pause
}

var (
	// errStreamEnded says that a stream ended without saying why.
	errStreamEnded = errors.New("the stream ended")
	// errNotNow says that the orchestrator can't do now what one of many requests asks for.
	errNotNow = errors.New("not now")
)

// mayGoOn reports whether what has failed so may work later: a watch may go on then.
func isTemporary(err error) bool {
	return errors.Is(err, errStreamEnded) || errors.Is(err, errNotNow) || status.Code(err) == codes.Unavailable
}

// stream is one stream; got reports whether it stood. An orchestrator of the release before says
// so with the first step.
func (w *watcher) stream(ctx context.Context, take func(*pb.WatchSessionResponse) error) (idle *pb.Idle, got bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := w.client.WatchSession(ctx, &pb.WatchSessionRequest{
		SessionId: w.session, AfterSeq: w.after, IncludeDeltas: w.deltas, UntilIdle: w.untilIdle, SeveralEvents: true,
	})
	if err != nil {
		return nil, false, err
	}
	if head, _ := stream.Header(); head != nil { // what kept it from standing, Recv says
		got = true
		if w.onConnected != nil {
			w.onConnected()
		}
	}
	for {
		step, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = errStreamEnded
		}
		if err != nil {
			return nil, got, err
		}
		got = true
		if err := w.deliver(step, take); err != nil {
			return nil, got, err
		}
		if step.GetIdle() != nil {
			return step.GetIdle(), got, nil
		}
	}
}

// hand gives what one message has brought, event by event.
func (w *watcher) deliver(step *pb.WatchSessionResponse, take func(*pb.WatchSessionResponse) error) error {
	more := step.GetMore()
	step.More = nil
	for {
		if e := step.GetEvent(); e != nil {
			w.after = e.GetSeq()
			w.denials.add(e)
		}
		if err := take(step); err != nil || len(more) == 0 {
			return err
		}
		step = &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: more[0]}}
		more = more[1:]
	}
}

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

// retryTimeout is how long a broken watch is retried.
const retryTimeout = 30 * time.Second

// What commands say of their connection.
const (
	connectionLost = "the connection is lost; reconnecting"
	connectedAgain = "connected again"
)

// watcher watches a session, and resumes after the last event when its stream breaks.
type watcher struct {
	client        pb.SessionServiceClient
	session       string
	after         int64
	deltas        bool
	untilIdle     bool
	onLost        func(error) // called when a stream breaks; may be nil
	denials       *denials    // collects denied calls; may be nil
	onConnected   func()      // called when a stream is established; may be nil
	connectedOnce bool        // a stream was established before
}

// each calls handle with every step in order, each event once, until the session is idle (if
// requested) or ctx ends.
func (w *watcher) each(ctx context.Context, handle func(*pb.WatchSessionResponse) error) (idle *pb.Idle, err error) {
	err = withRetries(ctx, w.connectedOnce, w.onLost, func() (got bool, err error) {
		idle, got, err = w.stream(ctx, handle)
		w.connectedOnce = w.connectedOnce || got
		return got, err
	})
	return idle, err
}

// eachPastBlocks is each, but it continues while the session waits for approvals.
func (w *watcher) eachPastBlocks(ctx context.Context, handle func(*pb.WatchSessionResponse) error) (idle *pb.Idle, err error) {
	idle, err = w.each(ctx, handle)
	for err == nil && idle.GetCause() == pb.IdleCause_IDLE_CAUSE_BLOCKED {
		if err = w.untilEvent(ctx, handle); err == nil {
			idle, err = w.each(ctx, handle)
		}
	}
	return idle, err
}

// errEventSeen ends a watch at the first event.
var errEventSeen = errors.New("something has happened")

// untilEvent calls handle with the steps up to and including the next event, even if the session
// is idle.
func (w *watcher) untilEvent(ctx context.Context, handle func(*pb.WatchSessionResponse) error) error {
	until := w.untilIdle
	w.untilIdle = false
	defer func() { w.untilIdle = until }()
	_, err := w.each(ctx, func(step *pb.WatchSessionResponse) error {
		if err := handle(step); err != nil || step.GetEvent() == nil {
			return err
		}
		return errEventSeen
	})
	if errors.Is(err, errEventSeen) {
		return nil
	}
	return err
}

// withRetries calls stream for one stream after another until it succeeds. The first stream must
// be established, unless begun is set; later ones are retried for retryTimeout. onLost is called
// for each broken stream; it may be nil.
func withRetries(ctx context.Context, begun bool, onLost func(error), stream func() (got bool, err error)) error {
	gone := newOutage()
	for {
		tried := time.Now()
		got, err := stream()
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
		if onLost != nil {
			onLost(err)
		}
		select {
		case <-time.After(gone.pause.NextBackOff()):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// outage is a period in which no orchestrator can be reached.
type outage struct {
	since time.Time // zero: no outage
	pause *backoff.ExponentialBackOff
}

func newOutage() *outage { return &outage{pause: newBackOff()} }

// clear ends the outage.
func (o *outage) clear() {
	o.since = time.Time{}
	o.pause.Reset()
}

// isTooLong records a failure, and reports whether the outage has lasted longer than retryTimeout.
func (o *outage) isTooLong() bool {
	if o.since.IsZero() {
		o.since = time.Now()
	}
	return time.Since(o.since) > retryTimeout
}

// wasServed reports whether a call that has just failed was served, although it brought nothing. A
// connection that cannot be established, or is dead, fails sooner.
func wasServed(tried time.Time) bool { return time.Since(tried) > retryTimeout }

// newBackOff returns the delays between attempts to reach an orchestrator.
func newBackOff() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 100 * time.Millisecond
	pause.MaxInterval = 2 * time.Second
	return pause
}

var (
	// errStreamEnded means that a stream ended without an error.
	errStreamEnded = errors.New("the stream ended")
	// errNotNow means that the orchestrator cannot serve one of many requests now.
	errNotNow = errors.New("not now")
)

// isTemporary reports whether a retry may succeed.
func isTemporary(err error) bool {
	return errors.Is(err, errStreamEnded) || errors.Is(err, errNotNow) || status.Code(err) == codes.Unavailable
}

// stream reads one stream. got reports whether it was established. An orchestrator of the previous
// release only shows that with the first step.
func (w *watcher) stream(ctx context.Context, handle func(*pb.WatchSessionResponse) error) (idle *pb.Idle, got bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := w.client.WatchSession(ctx, &pb.WatchSessionRequest{
		SessionId: w.session, AfterSeq: w.after, IncludeDeltas: w.deltas, UntilIdle: w.untilIdle, SeveralEvents: true,
	})
	if err != nil {
		return nil, false, err
	}
	if head, _ := stream.Header(); head != nil { // otherwise Recv returns the error
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
		if err := w.deliver(step, handle); err != nil {
			return nil, got, err
		}
		if step.GetIdle() != nil {
			return step.GetIdle(), got, nil
		}
	}
}

// deliver passes on the events of one message, one at a time.
func (w *watcher) deliver(step *pb.WatchSessionResponse, handle func(*pb.WatchSessionResponse) error) error {
	more := step.GetMore()
	step.More = nil
	for {
		if e := step.GetEvent(); e != nil {
			w.after = e.GetSeq()
			w.denials.add(e)
		}
		if err := handle(step); err != nil || len(more) == 0 {
			return err
		}
		step = &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: more[0]}}
		more = more[1:]
	}
}

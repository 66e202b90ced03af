package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/internal/tree"
)

// Times of a subscription. It is pinged each pingInterval, and a connection that is silent for
// silenceTimeout is dead. A lost connection is replaced after a pause that grows from minRetryPause
// to maxRetryPause.
const (
	pingInterval   = time.Second
	silenceTimeout = 3 * time.Second
	minRetryPause  = 20 * time.Millisecond
	maxRetryPause  = time.Second
)

// Listen calls onNudge with the nudges of other replicas than self. It also calls onNudge with the
// zero Nudge, which means "look at everything", whenever it has subscribed: at first and after each
// reconnection, because nudges may have been missed before. It calls onInterest with the interests
// of other replicas; senders repeat interests, so missed ones come again.
//
// Calls come one at a time. While a call lasts, messages queue up. If too many do, Redis closes the
// connection and Listen reconnects. A nudge may come more often than it was sent.
//
// Listen reconnects until ctx ends, and then returns nil. It fails only if the client has been
// closed.
func (b *Bus) Listen(ctx context.Context, self string, onNudge func(Nudge), onInterest func(Interest)) error {
	nudges, interests := b.keys.nudge(), b.keys.interest()
	return b.subscribe(ctx, []string{nudges, interests}, func(got any) {
		switch got := got.(type) {
		case *redis.Subscription:
			if got.Channel == nudges {
				onNudge(Nudge{})
			}
		case *redis.Message:
			if got.Channel == nudges {
				b.decodeNudges(ctx, got.Payload, self, onNudge)
			} else {
				b.decodeInterests(ctx, got.Payload, self, onInterest)
			}
		}
	})
}

// subscribe calls take with the messages of channels, and each time that it has subscribed to one
// of them. It reconnects until ctx ends, and then returns nil. It fails only if the client has been
// closed.
func (b *Bus) subscribe(ctx context.Context, channels []string, take func(any)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = minRetryPause, maxRetryPause
	for {
		err := b.runSubscription(ctx, channels, func(got any) {
			pause.Reset()
			take(got)
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is the ordinary end
		}
		if errors.Is(err, redis.ErrClosed) {
			return fmt.Errorf("listening on %s: %w", strings.Join(channels, ", "), err)
		}
		b.LogFailure(ctx, "the subscription was interrupted", err, "channels", channels)
		select {
		case <-time.After(pause.NextBackOff()):
		case <-ctx.Done():
			return nil
		}
	}
}

// runSubscription serves one connection. It always returns an error, if only that of ctx.
func (b *Bus) runSubscription(ctx context.Context, channels []string, take func(any)) error {
	sub := b.client.Subscribe(ctx) // no channel yet: this does not connect
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return keepAlive(ctx, sub) })
	g.Go(func() error { return receive(ctx, sub, channels, take) })
	return g.Wait()
}

// keepAlive pings, so that a live connection is never silent. It closes the subscription at its
// end, which wakes a blocked receive.
func keepAlive(ctx context.Context, sub *redis.PubSub) error {
	tick := time.NewTicker(pingInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := sub.Ping(ctx); err != nil {
				return errors.Join(fmt.Errorf("pinging: %w", err), sub.Close())
			}
		case <-ctx.Done():
			return errors.Join(ctx.Err(), sub.Close())
		}
	}
}

// receive subscribes and passes on what arrives.
func receive(ctx context.Context, sub *redis.PubSub, channels []string, take func(any)) error {
	if err := sub.Subscribe(ctx, channels...); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	for {
		// A timeout may occur in the middle of a message, so nothing is read after it.
		got, err := sub.ReceiveTimeout(ctx, silenceTimeout)
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		take(got)
	}
}

// Nudge says that a session has changed, or one of its tasks if Task is not zero. The zero Nudge is
// about everything.
type Nudge struct {
	Session tree.SessionID
	Task    tree.TaskID
}

// encodeNudges returns a message: the sender, then session or session/task for each nudge,
// separated by spaces.
func encodeNudges(from string, nudges []Nudge) string {
	words := make([]string, 0, 1+len(nudges))
	words = append(words, url.QueryEscape(from))
	for _, n := range nudges {
		word := n.Session.String()
		if !n.Task.IsZero() {
			word += "/" + n.Task.String()
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// decodeNudges passes the nudges of a message to onNudge. The message is not trusted.
func (b *Bus) decodeNudges(ctx context.Context, payload, self string, onNudge func(Nudge)) {
	from, rest, _ := strings.Cut(payload, " ")
	if name, err := url.QueryUnescape(from); err == nil && name == self {
		return
	}
	for word := range strings.FieldsSeq(rest) {
		id, task, hasTask := strings.Cut(word, "/")
		var n Nudge
		var err error
		n.Session, err = tree.ParseID[tree.Session](id)
		if err == nil && hasTask {
			n.Task, err = tree.ParseID[tree.Task](task)
		}
		if err != nil {
			b.log.WarnContext(ctx, "a nudge names no session or task", "error", err)
			continue
		}
		onNudge(n)
	}
}

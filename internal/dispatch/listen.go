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

// Times of a subscription: it is pinged each beatEvery, and a link that says
// nothing for silentAtMost is dead. A lost one is replaced after a pause that
// grows from retryFirst to retryAtMost.
const (
	pingInterval   = time.Second
	silenceTimeout = 3 * time.Second
	minRetryPause  = 20 * time.Millisecond
	maxRetryPause  = time.Second
)

// Listen calls look with what others than self nudge, and with the zero Nudge,
// which means "look at everything", whenever it has subscribed: at first and after
// each reconnection, as nudges may have been missed before. It calls wished with what
// others wish for; wishes that were missed are told again. Calls come one at a time;
// while one lasts, nudges and wishes queue up, and if too many do, Redis cuts the
// connection and Listen starts anew. A nudge may come more often than it was sent.
//
// Listen reconnects until ctx ends, and then returns nil; it fails only if the
// client has been closed.
func (b *Bus) Listen(ctx context.Context, self string, look func(Nudge), wished func(Interest)) error {
	nudges, wishes := b.keys.nudge(), b.keys.interest()
	return b.subscribe(ctx, []string{nudges, wishes}, func(got any) {
		switch got := got.(type) {
		case *redis.Subscription:
			if got.Channel == nudges {
				look(Nudge{})
			}
		case *redis.Message:
			if got.Channel == nudges {
				b.decodeNudges(ctx, got.Payload, self, look)
			} else {
				b.decodeInterests(ctx, got.Payload, self, wished)
			}
		}
	})
}

// subscribe gives take what comes on channels, and each time that one of them was
// subscribed to. It reconnects until ctx ends, and then returns nil; it fails only if
// the client has been closed.
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
		wait := pause.NextBackOff()
		b.log.WarnContext(ctx, "listening broke off", "channels", channels, "error", err, "retry_in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// runSubscription is one connection's life. It ends with an error, be it ctx's.
func (b *Bus) runSubscription(ctx context.Context, channels []string, take func(any)) error {
	sub := b.client.Subscribe(ctx) // to nothing: not connected yet
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return keepAlive(ctx, sub) })
	g.Go(func() error { return receive(ctx, sub, channels, take) })
	return g.Wait()
}

// keepAlive pings, so that a live link is never silent, and closes the subscription at
// its end, which is what wakes a blocked receive.
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

// receive subscribes and hands on what comes.
func receive(ctx context.Context, sub *redis.PubSub, channels []string, take func(any)) error {
	if err := sub.Subscribe(ctx, channels...); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	for {
		// A timeout may come in the middle of a message, so nothing is read after it.
		got, err := sub.ReceiveTimeout(ctx, silenceTimeout)
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		take(got)
	}
}

// Nudge says that something has changed: about a session, or about one of its
// tasks, if that is not zero. The zero Nudge is about everything.
type Nudge struct {
	Session tree.SessionID
	Task    tree.TaskID
}

// encodeNudges gives the text of nudges: who sends them, then session or session/task,
// with a space between them.
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

// decodeNudges reads nudges, which anybody may have written.
func (b *Bus) decodeNudges(ctx context.Context, payload, self string, look func(Nudge)) {
	from, rest, _ := strings.Cut(payload, " ")
	if name, err := url.QueryUnescape(from); err == nil && name == self {
		return
	}
	for word := range strings.FieldsSeq(rest) {
		id, task, named := strings.Cut(word, "/")
		var n Nudge
		var err error
		n.Session, err = tree.ParseID[tree.Session](id)
		if err == nil && named {
			n.Task, err = tree.ParseID[tree.Task](task)
		}
		if err != nil {
			b.log.WarnContext(ctx, "a nudge names nothing", "error", err)
			continue
		}
		look(n)
	}
}

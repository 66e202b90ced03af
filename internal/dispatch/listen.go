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
	beatEvery    = time.Second
	silentAtMost = 3 * time.Second
	retryFirst   = 20 * time.Millisecond
	retryAtMost  = time.Second
)

// Listen calls look with what others than self nudge, and with the zero Nudge,
// which means "look at everything", whenever it has subscribed: at first and after
// each reconnection, as nudges may have been missed before. Calls come one at a
// time; while one lasts, nudges queue up, and if too many do, Redis cuts the
// connection and Listen starts anew. A nudge may come more often than it was sent.
//
// Listen reconnects until ctx ends, and then returns nil; it fails only if the
// client has been closed.
func (b *Bus) Listen(ctx context.Context, self string, look func(Nudge)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = retryFirst, retryAtMost
	for {
		err := b.subscription(ctx, self, func(n Nudge) {
			pause.Reset()
			look(n)
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx is the ordinary end
		}
		if errors.Is(err, redis.ErrClosed) {
			return fmt.Errorf("listening for nudges: %w", err)
		}
		wait := pause.NextBackOff()
		b.log.WarnContext(ctx, "listening for nudges broke off", "error", err, "retry_in", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// subscription is one connection's life. It ends with an error, be it ctx's.
func (b *Bus) subscription(ctx context.Context, self string, look func(Nudge)) error {
	sub := b.client.Subscribe(ctx) // to nothing: not connected yet
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return beat(ctx, sub) })
	g.Go(func() error { return b.receive(ctx, sub, self, look) })
	return g.Wait()
}

// beat pings, so that a live link is never silent, and closes the subscription at
// its end, which is what wakes a blocked receive.
func beat(ctx context.Context, sub *redis.PubSub) error {
	tick := time.NewTicker(beatEvery)
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
func (b *Bus) receive(ctx context.Context, sub *redis.PubSub, self string, look func(Nudge)) error {
	if err := sub.Subscribe(ctx, b.keys.nudge()); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	for {
		// A timeout may come in the middle of a message, so nothing is read after it.
		got, err := sub.ReceiveTimeout(ctx, silentAtMost)
		if err != nil {
			return fmt.Errorf("receiving: %w", err)
		}
		switch got := got.(type) {
		case *redis.Subscription:
			look(Nudge{})
		case *redis.Message:
			b.nudged(ctx, got.Payload, self, look)
		}
	}
}

// Nudge says that something has changed: about a session, or about one of its
// tasks, if that is not zero. The zero Nudge is about everything.
type Nudge struct {
	Session tree.SessionID
	Task    tree.TaskID
}

// write gives the text of nudges: who sends them, then session or session/task,
// with a space between them.
func write(from string, nudges []Nudge) string {
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

// nudged reads nudges, which anybody may have written.
func (b *Bus) nudged(ctx context.Context, payload, self string, look func(Nudge)) {
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

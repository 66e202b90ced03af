package dispatch

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config configures a Bus.
type Config struct {
	// Client is not closed by the Bus. With ContextTimeoutEnabled, a connection that is dead but
	// not closed is noticed within seconds; otherwise after its ReadTimeout, or after 10 s in a
	// Pull. The client may retry on its own; commands that must not be repeated are marked with
	// noRetry.
	Client       *redis.Client
	Installation string       // the database's installation id; part of every key
	Logger       *slog.Logger // nil: none
}

// Bus sends and receives the hints, the nudges and the text of one installation. A process that
// calls Pull has to call Close.
type Bus struct {
	client     *redis.Client
	reader     *reader
	keys       keys
	log        *slog.Logger
	failures   FailureLog
	forget     *redis.Script
	textNumber atomic.Int64 // the number of the last text message
}

//go:embed forget.lua
var forgetScript string

// New checks the configuration. It sends nothing.
func New(c Config) (*Bus, error) {
	if c.Client == nil {
		return nil, errors.New("dispatch: a Redis client is required")
	}
	k, err := newKeys(c.Installation)
	if err != nil {
		return nil, fmt.Errorf("dispatch: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Bus{client: c.Client, reader: newReader(c.Client), keys: k, log: c.Logger, forget: redis.NewScript(forgetScript)}, nil
}

// Addr is the address of Redis.
func (b *Bus) Addr() string { return b.client.Options().Addr }

// Close closes the connection of Pull. Call it after the last Pull has returned.
func (b *Bus) Close() error {
	if err := b.reader.client.Close(); err != nil {
		return fmt.Errorf("closing the connection for reads: %w", err)
	}
	return nil
}

// noRetry marks a command that the client must not repeat after a failure.
type noRetry struct{ redis.Cmder }

func (noRetry) NoRetry() bool { return true }

// Announce adds hints to a pool's stream, in one round trip and in order. After an error, some or
// all of them may have been added. The stream is never trimmed, because a trim can't tell which
// entries have been read.
func (b *Bus) Announce(ctx context.Context, pool string, hints []Hint) error {
	key, err := b.keys.ready(pool)
	if err != nil {
		return fmt.Errorf("announcing: %w", err)
	}
	if len(hints) == 0 {
		return nil
	}
	pipe := b.client.Pipeline()
	for _, h := range hints {
		if err := h.check(); err != nil {
			return fmt.Errorf("announcing task %s of session %s: %w", h.Task, h.Session, err)
		}
		add := redis.NewStringCmd(ctx, append([]any{"xadd", key, "*"}, h.fields()...)...)
		if err := pipe.Process(ctx, noRetry{add}); err != nil {
			return fmt.Errorf("announcing on %s: %w", key, err)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("announcing on %s: %w", key, err)
	}
	return nil
}

// CheckWritable returns an error if Redis does not answer, or refuses commands that write, such as
// reads of hints. Like a Pull, it creates the pool's stream and group if they are missing.
func (b *Bus) CheckWritable(ctx context.Context, pool string) error {
	key, err := b.keys.ready(pool)
	if err != nil {
		return fmt.Errorf("checking for writes: %w", err)
	}
	if err := b.createGroup(ctx, key); err != nil {
		return fmt.Errorf("checking whether %s can be written: %w", key, err)
	}
	return nil
}

// IsDenied reports whether Redis refuses this process because of its user, its password or its rights.
// It may serve other processes.
func IsDenied(err error) bool { return redis.IsAuthError(err) || redis.IsPermissionError(err) }

// StreamLength returns how many hints of a pool are announced and not done, whether read or not.
func (b *Bus) StreamLength(ctx context.Context, pool string) (int, error) {
	key, err := b.keys.ready(pool)
	if err != nil {
		return 0, fmt.Errorf("counting the backlog: %w", err)
	}
	n, err := b.client.XLen(ctx, key).Result()
	if err != nil {
		return 0, fmt.Errorf("counting the backlog of %s: %w", key, err)
	}
	return int(n), nil
}

// Unread returns the ids of the hints of a pool that no consumer has read, in order, up to most of
// them.
func (b *Bus) Unread(ctx context.Context, pool string, most int) (ids []string, err error) {
	key, err := b.keys.ready(pool)
	if err != nil {
		return nil, fmt.Errorf("listing unread hints: %w", err)
	}
	groups, err := b.client.XInfoGroups(ctx, key).Result()
	if err != nil && !redis.HasErrorPrefix(err, noSuchStream) {
		return nil, fmt.Errorf("listing unread hints of %s: %w", key, err)
	}
	from := "-" // without a group nothing has been read
	for _, g := range groups {
		if g.Name == consumerGroup {
			from = "(" + g.LastDeliveredID
		}
	}
	unread, err := b.client.XRangeN(ctx, key, from, "+", int64(most)).Result()
	if err != nil {
		return nil, fmt.Errorf("listing unread hints of %s: %w", key, err)
	}
	for _, e := range unread {
		ids = append(ids, e.ID)
	}
	return ids, nil
}

// noSuchStream begins the error of a query about a missing stream.
const noSuchStream = "no such key"

// Done removes hints from a pool's stream, whichever consumer has read them, because their claims
// have been answered. It is idempotent.
func (b *Bus) Done(ctx context.Context, pool string, ids ...string) error {
	key, err := b.keys.ready(pool)
	if err != nil {
		return fmt.Errorf("finishing hints: %w", err)
	}
	if len(ids) == 0 {
		return nil
	}
	pipe := b.client.Pipeline()
	// In this order: TakeOver clears away a pending entry without its hint, but a hint that is no
	// longer pending would stay for ever.
	pipe.XDel(ctx, key, ids...)
	pipe.XAck(ctx, key, consumerGroup, ids...)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("finishing hints of %s: %w", key, err)
	}
	return nil
}

// Forget removes a consumer whose worker has ended. A consumer that still has hints stays, so that
// TakeOver finds them. A consumer that pulls again is created again.
func (b *Bus) Forget(ctx context.Context, pool, consumer string) error {
	key, err := b.keys.ready(pool)
	if err != nil {
		return fmt.Errorf("forgetting a consumer: %w", err)
	}
	if err := b.forget.Run(ctx, b.client, []string{key}, consumerGroup, consumer).Err(); err != nil {
		return fmt.Errorf("forgetting consumer %s of %s: %w", consumer, key, err)
	}
	return nil
}

// ForgetIdle calls Forget for all consumers that have not asked for hints for so long and have
// none, and returns their number. Forget checks again that a consumer has no hints. The embedded
// Redis does not know when consumers last asked; it ends with its consumers anyway.
func (b *Bus) ForgetIdle(ctx context.Context, pool string, idle time.Duration) (seen int, err error) {
	key, err := b.keys.ready(pool)
	if err != nil {
		return 0, fmt.Errorf("forgetting consumers: %w", err)
	}
	consumers, err := b.client.XInfoConsumers(ctx, key, consumerGroup).Result()
	if err != nil && (isGone(err) || redis.HasErrorPrefix(err, noSuchStream)) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("looking for consumers of %s: %w", key, err)
	}
	for _, c := range consumers {
		if c.Idle < idle || c.Pending > 0 {
			continue
		}
		if err := b.Forget(ctx, pool, c.Name); err != nil {
			return seen, err
		}
		seen++
	}
	return seen, nil
}

// Nudge tells all listeners of the installation except the sender to look at what has changed. A
// listener that is not subscribed now does not get it later.
func (b *Bus) Nudge(ctx context.Context, from string, nudges ...Nudge) error {
	if len(nudges) == 0 {
		return nil
	}
	if err := b.client.Publish(ctx, b.keys.nudge(), encodeNudges(from, nudges)).Err(); err != nil {
		return fmt.Errorf("nudging: %w", err)
	}
	return nil
}

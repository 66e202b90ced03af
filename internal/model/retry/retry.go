// Package retry makes requests to a model again when they fail for a temporary reason: a broken
// connection, an overloaded provider or a rate limit.
package retry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
)

// Default is the default of Config.Patience.
const Default = 30 * time.Minute

// Pauses between tries. Each is randomised by up to half, so that requests which failed
// together do not return together.
const (
	initialPause = 500 * time.Millisecond
	maxPause     = time.Minute
	jitter       = 0.5
)

// Config configures a [Model].
type Config struct {
	Model model.Model
	// Limiter queues requests at the rate limit. If it is nil, requests are made at once.
	Limiter *ratelimit.Limiter
	// Bucket returns the rate limit bucket of a model name. It is required with a Limiter.
	Bucket func(name string) string
	// Patience bounds how long failures may delay a request in total: the failed tries and the
	// pauses after them, but not the wait for the rate limit. 0 means Default.
	Patience time.Duration
	// InitialPause is the pause after the first failure. Pauses about double up to MaxPause. 0
	// means half a second and one minute.
	InitialPause, MaxPause time.Duration

	// Provider is the name of the provider that the Observer gets.
	Provider string
	Observer Observer     // optional
	Logger   *slog.Logger // optional
}

// Observer is notified of what delays requests, with the names of the provider and of the
// requested model. Its methods are called concurrently.
type Observer interface {
	// Tried reports a try. kind is valid only if the try failed.
	Tried(provider, model string, kind model.ErrorKind, failed bool)
	// Queued reports how long a request waited for the rate limit.
	Queued(provider, model string, took time.Duration)
	// Paused reports how long a request paused after a failure.
	Paused(provider, model string, took time.Duration)
}

// noObserver ignores everything.
type noObserver struct{}

func (noObserver) Tried(string, string, model.ErrorKind, bool) {}
func (noObserver) Queued(string, string, time.Duration)        {}
func (noObserver) Paused(string, string, time.Duration)        {}

// Model is a model that retries. It implements [model.Model].
type Model struct{ Config }

var _ model.Model = (*Model)(nil)

// New checks the configuration and applies its defaults.
func New(c Config) (*Model, error) {
	switch {
	case c.Model == nil:
		return nil, errors.New("retry: a model is required")
	case c.Limiter != nil && c.Bucket == nil:
		return nil, errors.New("retry: the names of buckets are required")
	case c.Patience < 0:
		return nil, fmt.Errorf("retry: the patience is %s, must not be negative", c.Patience)
	}
	if c.Patience == 0 {
		c.Patience = Default
	}
	if c.InitialPause == 0 {
		c.InitialPause = initialPause
	}
	if c.MaxPause == 0 {
		c.MaxPause = maxPause
	}
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Model{c}, nil
}

// request is the state of one request until it is answered.
type request struct {
	*Model
	req          *model.Request
	emit         func(model.Delta)
	patienceLeft time.Duration // remaining part of Config.Patience
	pause        backoff.ExponentialBackOff
	tries        int
	waitReported bool // the wait for the rate limit has been reported

	waited bool // this try had to wait for the rate limit
}

// Generate tries until there is an answer, an error that a retry cannot fix, or no patience
// left. If an answer breaks off after it emitted text, a delta that says so follows.
func (m *Model) Generate(ctx context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	if emit == nil {
		emit = func(model.Delta) {}
	}
	r := &request{
		Model: m, req: req, emit: emit, patienceLeft: m.Patience,
		pause: backoff.ExponentialBackOff{
			InitialInterval: m.InitialPause, MaxInterval: m.MaxPause, Multiplier: 2, RandomizationFactor: jitter,
		},
	}
	r.pause.Reset()
	for {
		answer, err := r.try(ctx)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		var failed *model.Error
		if !errors.As(err, &failed) || !retryable(failed.Kind) {
			return answer, err
		}
		if err := r.backOff(ctx, failed); err != nil {
			return nil, err
		}
	}
}

func retryable(k model.ErrorKind) bool {
	return k == model.ErrorRateLimited || k == model.ErrorOverloaded || k == model.ErrorBroken
}

// try waits for the rate limit and makes the request once.
func (r *request) try(ctx context.Context) (*model.Answer, error) {
	pass, err := r.waitTurn(ctx)
	if err != nil {
		return nil, err
	}
	r.tries++
	began := time.Now()
	answer, err := r.Model.Model.Generate(ctx, r.req, r.emit)
	if err == nil {
		r.Observer.Tried(r.Provider, r.req.Model, model.ErrorUnspecified, false)
		return answer, nil
	}
	r.patienceLeft -= time.Since(began)
	failed, known := errors.AsType[*model.Error](err)
	if known {
		r.Observer.Tried(r.Provider, r.req.Model, failed.Kind, true)
	}
	if pass != nil && known && failed.Kind == model.ErrorRateLimited {
		pass.ReportRefusal(ctx, min(failed.RetryAfter, r.Patience))
	}
	return nil, err
}

// waitTurn waits for the rate limit, in the flow of the session. It returns nil if there is no
// limiter.
func (r *request) waitTurn(ctx context.Context) (*ratelimit.Permit, error) {
	if r.Limiter == nil {
		return nil, nil
	}
	began := time.Now()
	r.waited = false
	pass, err := r.Limiter.Acquire(ctx, r.Bucket(r.req.Model), r.req.Session.String(), r.reportWait)
	if r.waited {
		r.Observer.Queued(r.Provider, r.req.Model, time.Since(began))
	}
	return pass, err
}

// reportWaitAbove is the wait from which the request tells its watchers that it waits.
const reportWaitAbove = 3 * time.Second

// reportWait reports once that the request waits for the rate limit.
func (r *request) reportWait(wait time.Duration) {
	r.waited = true
	if !r.waitReported && wait >= reportWaitAbove {
		r.waitReported = true
		r.emit(model.Delta{Restart: true, Thinking: true, Text: fmt.Sprintf("[waiting for the provider's rate limit, about %s]\n", wait.Round(time.Second))})
	}
}

// backOff pauses after a failure. It returns an error if no patience is left.
func (r *request) backOff(ctx context.Context, failed *model.Error) error {
	pause := r.pause.NextBackOff()
	asked := failed.RetryAfter
	switch {
	case asked > r.patienceLeft:
		return fmt.Errorf("the provider asks to wait %s, and %s of the patience (%s) are left after %d tries: %w",
			asked.Round(time.Second), r.patienceLeft.Round(time.Second), r.Patience, r.tries, failed)
	case pause > r.patienceLeft:
		return fmt.Errorf("out of patience (%s) after %d tries: %w", r.Patience, r.tries, failed)
	}
	// A random pause is added to the requested one: others may have been given the same time.
	announced := pause + asked
	if r.Limiter == nil || failed.Kind != model.ErrorRateLimited {
		pause = announced // otherwise the limiter applies the requested pause to all requests
	}
	r.patienceLeft -= pause
	r.Logger.InfoContext(ctx, "the model call failed and will be retried",
		"error", failed, "provider", r.Provider, "model", r.req.Model, "tries", r.tries, "retry_in", pause,
		"session_id", r.req.Session, "task_id", r.req.Task)
	r.emit(model.Delta{Restart: true, Thinking: true, Text: fmt.Sprintf("\n[%s: %s; trying again in %s]\n", failed.Kind, shortError(failed.Err), announced.Round(100*time.Millisecond))})
	began := time.Now()
	defer func() { r.Observer.Paused(r.Provider, r.req.Model, time.Since(began)) }()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxErrorRunes is how much of an error watchers are shown. The log has all of it.
const maxErrorRunes = 200

// shortError returns an error as one short line.
func shortError(err error) string {
	line := []rune(strings.Join(strings.Fields(fmt.Sprint(err)), " "))
	if len(line) > maxErrorRunes {
		line = append(line[:maxErrorRunes], '…')
	}
	return string(line)
}

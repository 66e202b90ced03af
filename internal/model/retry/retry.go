// Package patience makes a model of one that fails now and then: what the network
// and an overloaded provider do to a request is waited out.
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

// Default is how long failures are waited out if nobody says otherwise.
const Default = 30 * time.Minute

// Pauses between tries. Each is up to half as long again or half as short by chance,
// so that those who failed together do not come back together.
const (
	initialPause = 500 * time.Millisecond
	maxPause     = time.Minute
	jitter       = 0.5
)

// Config says what to be patient with.
type Config struct {
	Model model.Model
	// Limiter lets requests through; nil: they are made at once.
	Limiter *ratelimit.Limiter
	// Bucket names the rate limit that a model of a name falls under; required with
	// a Governor.
	Bucket func(name string) string
	// Patience is how long a request may be held up by failures in all: failed tries
	// and the pauses after them, but not waiting for its turn. 0: Default.
	Patience time.Duration
	// InitialPause is the pause after the first failure, and MostPause the longest that
	// it grows to; each is about twice the one before. 0: half a second, a minute.
	InitialPause, MaxPause time.Duration

	// Provider is what the provider is called where Observe is told of it.
	Provider string
	Observer Observer     // nil: nobody observes
	Logger   *slog.Logger // nil: none
}

// Observer is told of what holds requests up, with the provider's name and that of the
// model that was asked for. It may be told by many requests at once.
type Observer interface {
	// Tried tells of a try. Its kind counts if it has failed.
	Tried(provider, model string, kind model.ErrorKind, failed bool)
	// Queued tells how long a request had to wait for its turn.
	Queued(provider, model string, took time.Duration)
	// Paused tells how long a request waited after a failure.
	Paused(provider, model string, took time.Duration)
}

// noObserver observes nothing.
type noObserver struct{}

func (noObserver) Tried(string, string, model.ErrorKind, bool) {}
func (noObserver) Queued(string, string, time.Duration)        {}
func (noObserver) Paused(string, string, time.Duration)        {}

// Model tries again. It implements [model.Model].
type Model struct{ Config }

var _ model.Model = (*Model)(nil)

// New checks the configuration.
func New(c Config) (*Model, error) {
	switch {
	case c.Model == nil:
		return nil, errors.New("patience: a model is required")
	case c.Limiter != nil && c.Bucket == nil:
		return nil, errors.New("patience: the names of buckets are required")
	case c.Patience < 0:
		return nil, fmt.Errorf("patience: %s is no time to be patient for", c.Patience)
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

// request is one request until it is answered.
type request struct {
	*Model
	req          *model.Request
	emit         func(model.Delta)
	patienceLeft time.Duration // of the patience
	pause        backoff.ExponentialBackOff
	tries        int
	waitReported bool // that the request waits for its turn

	waited bool // a turn was waited for in this try
}

// Generate asks until there is an answer, an error that another try would not mend,
// or no patience left. What it emits of an answer that broke off is followed by a
// delta that says so.
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

// try waits for the request's turn and makes it.
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

// waitTurn waits for the request's turn, which is its session's; nil: there are no turns.
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

// reportWaitAbove is how long a wait for one's turn is before it is mentioned.
const reportWaitAbove = 3 * time.Second

// reportWait tells once that the request waits for its turn.
func (r *request) reportWait(wait time.Duration) {
	r.waited = true
	if !r.waitReported && wait >= reportWaitAbove {
		r.waitReported = true
		r.emit(model.Delta{Restart: true, Thinking: true, Text: fmt.Sprintf("[waiting for the provider's rate limit, about %s]\n", wait.Round(time.Second))})
	}
}

// backOff waits out a failure. The error says that there is no patience left for it.
func (r *request) backOff(ctx context.Context, failed *model.Error) error {
	pause := r.pause.NextBackOff()
	asked := failed.RetryAfter
	if asked > r.patienceLeft || pause > r.patienceLeft {
		return fmt.Errorf("out of patience (%s) after %d tries: %w", r.Patience, r.tries, failed)
	}
	if r.Limiter != nil && failed.Kind == model.ErrorRateLimited {
		asked = 0 // the governor sees to that, for all
	}
	// Who is told the same time as others comes back a little after it.
	pause += asked
	r.patienceLeft -= pause
	r.Logger.InfoContext(ctx, "the model failed and is tried again",
		"error", failed, "tries", r.tries, "retry_in", pause,
		"session_id", r.req.Session, "task_id", r.req.Task)
	r.emit(model.Delta{Restart: true, Thinking: true, Text: fmt.Sprintf("\n[%s: %s; trying again in %s]\n", failed.Kind, shortError(failed.Err), pause.Round(100*time.Millisecond))})
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

// maxErrorRunes is how much of an error is told to those who watch, in characters; the rest is
// for the log.
const maxErrorRunes = 200

// shortError is an error in a short line.
func shortError(err error) string {
	line := []rune(strings.Join(strings.Fields(fmt.Sprint(err)), " "))
	if len(line) > maxErrorRunes {
		line = append(line[:maxErrorRunes], '…')
	}
	return string(line)
}

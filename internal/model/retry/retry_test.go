package retry_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/retry"
	"github.com/coppice-run/coppice/internal/tree"
)

// flaky fails with one error after another, then answers.
type flaky struct {
	errors []error
	said   string // of each failing answer, before it broke off
	asked  []time.Time
}

func (f *flaky) Generate(_ context.Context, _ *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	f.asked = append(f.asked, time.Now())
	n := len(f.asked) - 1
	if n < len(f.errors) {
		if f.said != "" {
			emit(model.Delta{Text: f.said})
		}
		return nil, f.errors[n]
	}
	emit(model.Delta{Text: "fine"})
	return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "fine"}}}, nil
}

func fails(kind model.ErrorKind, after time.Duration) error {
	return fmt.Errorf("asking: %w", &model.Error{Kind: kind, RetryAfter: after, Err: errors.New("no")})
}

func patient(t *testing.T, f *flaky, c retry.Config) *retry.Model {
	t.Helper()
	c.Model = f
	m, err := retry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFailuresAreWaitedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{said: "half", errors: []error{
			fails(model.ErrorBroken, 0), fails(model.ErrorOverloaded, 0), fails(model.ErrorRateLimited, 0), fails(model.ErrorBroken, time.Minute),
		}}
		var shown []string
		answer, err := patient(t, f, retry.Config{}).Generate(t.Context(), &model.Request{}, func(d model.Delta) {
			shown = append(shown, d.Text)
			if d.Restart != strings.HasPrefix(strings.TrimSpace(d.Text), "[") {
				t.Errorf("piece %d, %q: restart %t", len(shown), d.Text, d.Restart)
			}
		})
		if err != nil || len(answer.Blocks) != 1 {
			t.Fatalf("answered %v, %v", answer, err)
		}
		// Each broken answer is followed by the word that it is given up.
		if len(shown) != 9 || shown[0] != "half" || !strings.Contains(shown[1], "broken off") || shown[8] != "fine" {
			t.Errorf("shown: %q", shown)
		}
		for i, bounds := range [][2]time.Duration{
			{250 * time.Millisecond, 750 * time.Millisecond}, {500 * time.Millisecond, 1500 * time.Millisecond},
			{time.Second, 3 * time.Second}, {time.Minute + 2*time.Second, time.Minute + 6*time.Second},
		} {
			if pause := f.asked[i+1].Sub(f.asked[i]); pause < bounds[0] || pause > bounds[1] {
				t.Errorf("pause %d is %s, want %s to %s", i, pause, bounds[0], bounds[1])
			}
		}
	})
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		for range 1000 {
			f.errors = append(f.errors, fails(model.ErrorOverloaded, 0))
		}
		began := time.Now()
		_, err := patient(t, f, retry.Config{}).Generate(t.Context(), &model.Request{}, nil)
		took := time.Since(began)
		var failed *model.Error
		if !errors.As(err, &failed) || failed.Kind != model.ErrorOverloaded || !strings.Contains(err.Error(), "out of patience (30m0s)") {
			t.Errorf("ended with %v", err)
		}
		if took > retry.Default || took < retry.Default-2*time.Minute {
			t.Errorf("ended after %s", took)
		}
	})
}

func TestWhatIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"a wrong request":                fails(model.ErrorInvalid, 0),
		"a wrong key":                    fails(model.ErrorAuth, 0),
		"an error of another kind":       errors.New("no"),
		"a pause longer than patience":   fails(model.ErrorRateLimited, time.Hour),
		"an error that does not say":     fails(model.ErrorUnspecified, 0),
		"a longer pause of an overload ": fails(model.ErrorOverloaded, 31*time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &flaky{errors: []error{err}}
			if _, got := patient(t, f, retry.Config{}).Generate(t.Context(), &model.Request{}, nil); got == nil || len(f.asked) != 1 {
				t.Errorf("asked %d times, then %v", len(f.asked), got)
			}
		})
	}
}

// TestALongPauseIsNamed: a run that ends because the provider asks for a longer pause than patience
// allows says so. Its patience is not out.
func TestALongPauseIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{errors: []error{fails(model.ErrorRateLimited, time.Hour)}}
		_, err := patient(t, f, retry.Config{}).Generate(t.Context(), &model.Request{}, nil)
		const want = "the provider asks to wait 1h0m0s, and 30m0s of the patience (30m0s) are left after 1 tries: "
		if failed, known := errors.AsType[*model.Error](err); !known || failed.Kind != model.ErrorRateLimited || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestCancellationEndsTheWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the run is over")
		f := &flaky{errors: []error{fails(model.ErrorOverloaded, 10*time.Minute)}}
		time.AfterFunc(time.Minute, func() { cancel(why) })
		began := time.Now()
		if _, err := patient(t, f, retry.Config{}).Generate(ctx, &model.Request{}, nil); !errors.Is(err, why) || time.Since(began) != time.Minute {
			t.Errorf("ended after %s with %v", time.Since(began), err)
		}
	})
}

// TestTheQueueCostsNoPatience: who is refused for the rate waits with all others, and
// that is no failure.
func TestTheQueueCostsNoPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flaky{}
		for range 10 {
			f.errors = append(f.errors, fails(model.ErrorRateLimited, 4*time.Minute))
		}
		m := patient(t, f, retry.Config{
			Limiter: ratelimit.New(slog.New(slog.DiscardHandler)), Bucket: func(name string) string { return name },
		})
		began := time.Now()
		if _, err := m.Generate(t.Context(), &model.Request{}, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 40*time.Minute {
			t.Errorf("took only %s", took)
		}
	})
}

// TestTheAnnouncedPauseIsTheWholeOne: whoever watches is told of the pause that the provider asked
// for, though the queue of the rate limit applies it.
func TestTheAnnouncedPauseIsTheWholeOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const asked = 8 * time.Second
		m := patient(t, &flaky{errors: []error{fails(model.ErrorRateLimited, asked)}}, retry.Config{
			Limiter: ratelimit.New(slog.New(slog.DiscardHandler)), Bucket: func(name string) string { return name },
		})
		announced := ""
		if _, err := m.Generate(t.Context(), &model.Request{}, func(d model.Delta) {
			if _, after, told := strings.Cut(d.Text, "trying again in "); told {
				announced = strings.TrimRight(after, "]\n")
			}
		}); err != nil {
			t.Fatal(err)
		}
		if pause, err := time.ParseDuration(announced); err != nil || pause < asked {
			t.Errorf("a pause of %q was announced, the provider asked for %s", announced, asked)
		}
	})
}

// TestARequestQueuesForItsSession: the rate limit's queue takes turns between sessions, so
// it has to know whose a request is. Sessions whose ids are alike are two.
func TestARequestQueuesForItsSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		defer server.Close()
		client := redis.NewClient(&redis.Options{
			Dialer:                   func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		defer client.Close()
		g := ratelimit.New(slog.New(slog.DiscardHandler))
		g.Share(client, func(bucket string) string { return bucket })
		pass, err := g.Acquire(t.Context(), "b", "another", nil)
		if err != nil {
			t.Fatal(err)
		}
		pass.ReportRefusal(t.Context(), time.Hour)
		m := patient(t, &flaky{}, retry.Config{Limiter: g, Bucket: func(string) string { return "b" }})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		sessions := []tree.SessionID{{1}, {2}}
		for _, session := range sessions {
			all.Go(func() {
				if _, err := m.Generate(ctx, &model.Request{Session: session}, nil); !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %v", err)
				}
			})
		}
		synctest.Wait()
		flows := client.HKeys(t.Context(), "b:flows").Val()
		cancel()
		all.Wait()
		slices.Sort(flows)
		if want := []string{sessions[0].String(), sessions[1].String()}; !slices.Equal(flows, want) {
			t.Errorf("they wait for %q, want %q", flows, want)
		}
	})
}

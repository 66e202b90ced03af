package alive

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// grace is how long tests wait for a worker, in the time of their bubble.
const grace = 3 * time.Second

// end is what comes of a try to connect.
type end func(ctx context.Context) (net.Conn, error)

func says(text string) end {
	return func(context.Context) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			_, _ = far.Write([]byte(text)) // who asked may have gone
		}()
		return near, nil
	}
}

func fails(err error) end {
	return func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
}

var (
	lives   = says(replyLine("w"))
	refused = fails(syscall.ECONNREFUSED)
)

// unanswered is a way on which everything is swallowed.
func unanswered(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// mute takes connections and says nothing.
func mute(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	context.AfterFunc(ctx, func() { far.Close() })
	return near, nil
}

// network gives each try to connect the next end; the last one stays.
type network struct {
	mu    sync.Mutex
	ends  []end
	tries []string // the addresses, in order
}

func (n *network) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	next := n.ends[0]
	if len(n.ends) > 1 {
		n.ends = n.ends[1:]
	}
	n.tries = append(n.tries, address)
	n.mu.Unlock()
	return next(ctx)
}

func (n *network) tried() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.tries)
}

// later waits so long, and for what happens then.
func later(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

var host = &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 40_000}

// met gives a prober that has met the worker "w" at 10.1.2.3:7072, as the first end
// has it, and a count of its deaths. Call it in a bubble.
func met(t *testing.T, ends ...end) (*Worker, *network, *atomic.Int64) {
	t.Helper()
	n, deaths := &network{ends: ends}, new(atomic.Int64)
	p := NewProber(Config{Dial: n.dial, OnDeath: func(id string) {
		if id != "w" {
			t.Errorf("%q has died", id)
		}
		deaths.Add(1)
	}})
	t.Cleanup(p.Close)
	w := p.StreamOpened("w", host, 7072)
	synctest.Wait()
	return w, n, deaths
}

// TestWhatMeansDeath has a worker that was heard under its address, and breaks its
// stream.
func TestWhatMeansDeath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then []end
		dead bool
	}{
		"nobody listens there":             {[]end{refused}, true},
		"another worker has its place":     {[]end{says(replyLine("v"))}, true},
		"its name goes on":                 {[]end{says(replyLine("w2"))}, true},
		"it is dying":                      {[]end{lives, lives, lives, refused}, true},
		"it was out of reach before":       {[]end{unanswered, fails(syscall.EHOSTUNREACH), refused}, true},
		"it lives":                         {[]end{lives}, false},
		"the way swallows everything":      {[]end{unanswered}, false},
		"it is frozen":                     {[]end{mute}, false},
		"there is no way":                  {[]end{fails(syscall.EHOSTUNREACH)}, false},
		"connections are reset":            {[]end{fails(syscall.ECONNRESET)}, false},
		"there are no files left":          {[]end{fails(syscall.EMFILE)}, false},
		"a proxy takes connections for it": {[]end{says("")}, false},
		"the line is cut off":              {[]end{says("coppice worker v")}, false},
		"nobody is named":                  {[]end{says(replyLine(""))}, false},
		"something else is there":          {[]end{says("SSH-2.0-OpenSSH_9.2\r\n")}, false},
		"it talks without an end":          {[]end{says(greeting + strings.Repeat("w", 1<<20))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, n, deaths := met(t, append([]end{lives}, c.then...)...)
				told := 0
				w.IfDead(grace, func() { told++ })
				later(2 * grace)
				if want := map[bool]int{true: 1}[c.dead]; told != want || deaths.Load() != int64(want) {
					t.Errorf("told %d times, %d deaths, want %d", told, deaths.Load(), want)
				}
				asked := n.tried()
				if later(time.Minute); n.tried() != asked {
					t.Error("asked when nobody waits any more")
				}
				w.StreamClosed()
				if len(w.prober.workers) != 0 {
					t.Errorf("%d workers are remembered", len(w.prober.workers))
				}
			})
		})
	}
}

// TestOnlyAVerifiedWorkerIsFoundDead meets one that does not answer where it says.
func TestOnlyAVerifiedWorkerIsFoundDead(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]end{
		"refused": refused, "unanswered": unanswered, "another": says(replyLine("v")), "something else": says("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, n, deaths := met(t, first, refused)
				later(verifyTimeout)
				w.IfDead(grace, func() { t.Error("it was given up") })
				later(2 * grace)
				if n.tried() != 1 || deaths.Load() != 0 {
					t.Errorf("asked %d times, %d deaths", n.tried(), deaths.Load())
				}
			})
		})
	}
}

// TestVerifyingIsTriedAgain has a worker out of reach at first: further streams of it
// try again, but not each of them.
func TestVerifyingIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, n, deaths := met(t, unanswered, lives, refused)
		for range 100 {
			w.prober.StreamOpened("w", host, 7072)
		}
		later(verifyRetry)
		if n.tried() != 1 {
			t.Errorf("asked %d times", n.tried())
		}
		for range 100 {
			w.prober.StreamOpened("w", host, 7072)
		}
		synctest.Wait()
		w.IfDead(grace, func() {})
		synctest.Wait()
		if n.tried() != 3 || deaths.Load() != 1 {
			t.Errorf("asked %d times, %d deaths", n.tried(), deaths.Load())
		}
	})
}

// TestManyStreamsAskOnce breaks a hundred streams of one worker, half of them when it
// has been found dead already.
func TestManyStreamsAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, n, deaths := met(t, lives, refused)
		var told atomic.Int64
		for range 50 {
			w.IfDead(grace, func() { told.Add(1) })
		}
		synctest.Wait()
		for range 50 {
			w.IfDead(grace, func() { told.Add(1) })
		}
		if told.Load() != 100 || n.tried() != 2 || deaths.Load() != 1 {
			t.Errorf("%d were told, it was asked %d times and died %d times", told.Load(), n.tried(), deaths.Load())
		}
	})
}

// TestALaterBreakAsksSoon breaks one stream of a worker that lives, and the others when
// it dies, between two questions that are far apart by then.
func TestALaterBreakAsksSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, n, _ := met(t, lives)
		w.IfDead(time.Hour, func() {})
		later(20*maxProbePause - maxProbePause/2)
		n.mu.Lock()
		n.ends = []end{refused}
		n.mu.Unlock()
		died, told := time.Now(), time.Time{}
		w.IfDead(grace, func() { told = time.Now() })
		later(grace)
		if late := told.Sub(died); told.IsZero() || late > minProbePause {
			t.Errorf("found dead after %s", late)
		}
	})
}

// TestWhoSpeaksIsAlive has a worker that was given up come back: its next stream that
// breaks does not make it dead.
func TestWhoSpeaksIsAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, deaths := met(t, lives, refused, lives)
		w.IfDead(grace, func() {})
		synctest.Wait()
		if deaths.Load() != 1 {
			t.Fatalf("it died %d times", deaths.Load())
		}
		again := w.prober.StreamOpened("w", host, 7072)
		again.IfDead(grace, func() { t.Error("it was given up again") })
		later(2 * grace)
	})
}

// TestFirstQuestionsAreBounded meets many workers that don't answer.
func TestFirstQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		p := NewProber(Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			defer now.Add(-1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			return unanswered(ctx)
		}})
		defer p.Close()
		for i := range 10 * maxVerifications {
			p.StreamOpened("w", host, uint32(i+1)).StreamClosed()
		}
		later(2 * verifyTimeout)
		if most.Load() != maxVerifications || len(p.workers) != 0 {
			t.Errorf("%d questions at once, want %d; %d workers are remembered", most.Load(), maxVerifications, len(p.workers))
		}
	})
}

// TestQuestionsAreBounded breaks the streams of many workers, to all of which the way is
// lost.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		lost := false
		p := NewProber(Config{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if !lost {
				return lives(ctx)
			}
			defer now.Add(-1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			return unanswered(ctx)
		}})
		defer p.Close()
		var all []*Worker
		for i := range 10 * maxProbes {
			all = append(all, p.StreamOpened("w", host, uint32(i+1)))
		}
		synctest.Wait()
		lost = true
		for _, w := range all {
			w.IfDead(grace, func() { t.Error("it was given up") })
			w.StreamClosed()
		}
		later(2 * grace)
		if most.Load() != maxProbes || len(p.workers) != 0 {
			t.Errorf("%d questions at once, want %d; %d workers are remembered", most.Load(), maxProbes, len(p.workers))
		}
	})
}

// TestOnlyTheHostOfTheStreamIsAsked: a worker chooses the port, and nothing else.
func TestOnlyTheHostOfTheStreamIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{ends: []end{lives}}
		p := NewProber(Config{Dial: n.dial})
		defer p.Close()
		for name, w := range map[string]*Worker{
			"not TCP":      p.StreamOpened("w", &net.IPAddr{IP: net.IPv4(10, 1, 2, 3)}, 7072),
			"no address":   p.StreamOpened("w", nil, 7072),
			"no host":      p.StreamOpened("w", &net.TCPAddr{Port: 1}, 7072),
			"no port":      p.StreamOpened("w", host, 0),
			"no such port": p.StreamOpened("w", host, 70_000),
			"no id":        p.StreamOpened("", host, 7072),
			"a long id":    p.StreamOpened(strings.Repeat("w", maxIDBytes+1), host, 7072),
		} {
			if w != nil {
				t.Errorf("%s: %v is asked", name, w.endpoint)
			}
			w.IfDead(grace, func() { t.Error("nobody is dead") })
			w.StreamClosed()
		}
		p.StreamOpened("w", &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1}, 7073)
		p.StreamOpened("w", host, 7072)
		p.StreamOpened("w", &net.UnixAddr{Name: "@", Net: "unix"}, 7074) // over a socket of this machine
		synctest.Wait()
		got := n.tries
		slices.Sort(got)
		if want := []string{"10.1.2.3:7072", "127.0.0.1:7074", "[fe80::1%eth0]:7073"}; !slices.Equal(got, want) {
			t.Errorf("asked %s", got)
		}
	})
}

// TestALateQuestionForgetsNoStreams: a run may be granted to a stream that broke long ago. Who is
// asked then may have streams again.
func TestALateQuestionForgetsNoStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone, _, _ := met(t, lives)
		gone.StreamClosed()
		p := gone.prober
		back := p.StreamOpened("w", host, 7072)
		synctest.Wait()
		gone.IfDead(grace, func() {})
		later(2 * grace)
		if next := p.StreamOpened("w", host, 7072); next != back {
			t.Error("a worker that has a stream was forgotten")
		}
	})
}

package fakellm

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Fault is what goes wrong with one request. The zero value is none.
type Fault struct {
	// Status is answered instead, with Retry-After if RetryAfter is not 0.
	Status     int
	RetryAfter time.Duration
	// Cut is after how many bytes of the answer the connection breaks; with Quietly
	// the answer ends there as if it were whole. 0: not at all.
	Cut     int
	Quietly bool
	// Stall is after how many bytes nothing more comes, until the client leaves.
	Stall int
	// BreakOff is a status that the answer says in the middle that it ends with.
	BreakOff int
	// Malformed makes the inputs of calls no JSON.
	Malformed bool
	// Drip is how long to wait before each event.
	Drip time.Duration
	// Padding is how many bytes of text the answer begins with.
	Padding int
}

// statusOverloaded is Anthropic's.
const statusOverloaded = 529

// RandomFault gives a trouble of any kind that a client can get over by trying again; the
// same for the same numbers of a seeded source.
func RandomFault(random *rand.Rand) Fault {
	switch random.IntN(10) {
	case 0:
		return Fault{Status: http.StatusTooManyRequests}
	case 1:
		return Fault{Status: http.StatusInternalServerError}
	case 2:
		return Fault{Status: statusOverloaded}
	case 3:
		return Fault{Status: http.StatusBadGateway}
	case 4:
		return Fault{Status: http.StatusRequestTimeout}
	case 5:
		return Fault{BreakOff: statusOverloaded}
	case 6:
		return Fault{BreakOff: http.StatusTooManyRequests}
	case 7:
		return Fault{Cut: 1 + random.IntN(50)} // before the first event is whole
	case 8:
		return Fault{Cut: 1 + random.IntN(1500)}
	}
	return Fault{Cut: 1 + random.IntN(1500), Quietly: true}
}

// RandomFaults makes troubles of any kind for a share of all requests.
func RandomFaults(share float64, seed uint64) func(int64) Fault {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, seed))
	return func(int64) Fault {
		mu.Lock()
		defer mu.Unlock()
		if random.Float64() >= share {
			return Fault{}
		}
		return RandomFault(random)
	}
}

func padding(bytes int) string {
	const line = "All work and no play makes a dull answer.\n"
	return strings.Repeat(line, bytes/len(line)+1)[:bytes]
}

// limit takes so many requests a second, and as many at once.
type limit struct {
	rate float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

func newLimit(rate float64) *limit { return &limit{rate: rate, tokens: rate} }

// take takes a request, or says how long to leave it alone.
func (l *limit) take(now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate == 0 {
		return 0
	}
	if !l.at.IsZero() {
		l.tokens = min(max(l.rate, 1), l.tokens+l.rate*now.Sub(l.at).Seconds())
	}
	l.at = now
	if l.tokens < 1 {
		return time.Duration((1 - l.tokens) / l.rate * float64(time.Second))
	}
	l.tokens--
	return 0
}

// events writes server-sent events, and what goes wrong with them.
type events struct {
	w       http.ResponseWriter
	flush   *http.ResponseController
	ended   <-chan struct{} // when the client has left
	fault   Fault
	written int
	aborted bool // nothing more is written
}

// send writes one event; name may be empty.
func (e *events) send(name, data string) {
	if e.aborted {
		return
	}
	if e.written == 0 {
		e.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	if e.fault.Drip > 0 {
		select {
		case <-time.After(e.fault.Drip):
		case <-e.ended:
		}
	}
	text := "data: " + data + "\n\n"
	if name != "" {
		text = "event: " + name + "\n" + text
	}
	stop := max(e.fault.Cut, e.fault.Stall)
	if stop > 0 && e.written+len(text) >= stop {
		e.put(text[:stop-e.written])
		e.abort()
		return
	}
	e.put(text)
}

func (e *events) put(text string) {
	n, err := e.w.Write([]byte(text))
	e.written += n
	if err == nil {
		err = e.flush.Flush()
	}
	if err != nil {
		panic(http.ErrAbortHandler) // nobody listens any more
	}
}

// abort ends the answer before its end.
func (e *events) abort() {
	e.aborted = true
	switch {
	case e.fault.Stall > 0:
		<-e.ended
		fallthrough
	case !e.fault.Quietly:
		panic(http.ErrAbortHandler)
	}
}

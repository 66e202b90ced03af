package fakellm

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Fault is what goes wrong with a request. The zero value is nothing.
type Fault struct {
	// Status is the status of the response, with Retry-After if RetryAfter is not 0.
	Status     int
	RetryAfter time.Duration
	// Cut is after how many bytes of the response the connection breaks; 0: never. With Quietly
	// the response ends there as if it were complete.
	Cut     int
	Quietly bool
	// Stall is after how many bytes nothing more is sent until the client leaves.
	Stall int
	// BreakOff is the status with which an error event ends the answer midway.
	BreakOff int
	// Malformed makes the inputs of calls invalid JSON.
	Malformed bool
	// Padding is how many bytes of text the answer starts with.
	Padding int
}

// defined by Anthropic
const statusOverloaded = 529

// RandomFault returns a random fault that a client can overcome by retrying. It is reproducible
// with a seeded source.
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
		return Fault{Cut: 1 + random.IntN(50)} // before the first event is complete
	case 8:
		return Fault{Cut: 1 + random.IntN(1500)}
	}
	return Fault{Cut: 1 + random.IntN(1500), Quietly: true}
}

// RandomFaults injects random faults into a share of all requests.
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

// limit accepts this many requests per second, and as many at once.
type limit struct {
	rate float64

	mu     sync.Mutex
	tokens float64
	at     time.Time
}

func newLimit(rate float64) *limit { return &limit{rate: rate, tokens: rate} }

// take accepts a request, or returns how long to wait.
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

// events writes server-sent events, with the faults.
type events struct {
	w       http.ResponseWriter
	flush   *http.ResponseController
	ended   <-chan struct{} // closed when the client has left
	fault   Fault
	written int
	aborted bool // nothing more is written
}

// send writes one event. name may be empty.
func (e *events) send(name, data string) {
	if e.aborted {
		return
	}
	if e.written == 0 {
		e.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
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
		panic(http.ErrAbortHandler) // the client has left
	}
}

// abort ends the response before its end.
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

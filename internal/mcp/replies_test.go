package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/tool"
)

// fewGoroutines is more than a test needs, and a fraction of those that a flood leads to.
const fewGoroutines = 2000

// once is quick, but a server that is down stays so.
func once() times {
	t := quick()
	t.pause, t.pauses = time.Hour, time.Hour
	return t
}

// endsTheFlood waits until a server is down for what it sends, and bounds goroutines until then.
func (k *kept) endsTheFlood() {
	k.t.Helper()
	most := 0
	k.eventually("it is down", func() bool {
		most = max(most, runtime.NumGoroutine())
		return strings.Contains(k.log.String(), "an MCP server is down")
	})
	if log := k.log.String(); !strings.Contains(log, "does not take the replies, of which 64 wait") {
		k.t.Errorf("the log:\n%s", log)
	}
	k.stop()
	if most > fewGoroutines {
		k.t.Errorf("there were %d goroutines", most)
	}
}

// A process that sends requests and reads no replies is ended. It is not parallel to other tests,
// because it counts goroutines.
func TestFloodFromAProcess(t *testing.T) {
	for _, kind := range []string{"floods", "floods at once"} {
		t.Run(kind, func(t *testing.T) { keep(t, once(), stdio(kind)).endsTheFlood() })
	}
}

// isHTTPReply reports whether a server has got a reply, whose body can still be read.
func isHTTPReply(r *http.Request) bool {
	data, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(data))
	return err == nil && r.Method == http.MethodPost && !bytes.Contains(data, []byte(`"method"`))
}

// hangsReplies lets requests with replies wait, and counts those that do.
type hangsReplies struct{ waiting, most atomic.Int64 }

func (h *hangsReplies) handle(r *http.Request) bool {
	if !isHTTPReply(r) {
		return false
	}
	defer h.waiting.Add(-1)
	for n := h.waiting.Add(1); ; {
		if most := h.most.Load(); n <= most || h.most.CompareAndSwap(most, n) {
			break
		}
	}
	<-r.Context().Done()
	return true
}

// A server that sends requests over the stream and takes no replies is left. It is not parallel to
// other tests, because it counts goroutines.
func TestFloodOverHTTP(t *testing.T) {
	var replies hangsReplies
	ts := overHTTP(t, legacy(newTestServer()), func(w http.ResponseWriter, r *http.Request) bool {
		if !isListenRequest(r) {
			return replies.handle(r)
		}
		w.Header().Set("Content-Type", eventStream)
		for n := 0; r.Context().Err() == nil; n++ {
			if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", n); err != nil {
				break
			}
		}
		return true
	})
	keep(t, once(), web(ts.URL)).endsTheFlood()
	if most := replies.most.Load(); most > 2*maxReplies { // over one connection, and over one in the other way to start a session
		t.Errorf("%d replies waited", most)
	}
}

// Requests are replied to, however many there are.
func TestRepliesOverHTTP(t *testing.T) {
	t.Parallel()
	const pings = 2 * maxReplies
	over, all := make(chan struct{}, pings), make(chan struct{})
	var listening atomic.Int64
	ts := overHTTP(t, legacy(newTestServer()), func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case isListenRequest(r) && listening.Add(1) == 1:
			w.Header().Set("Content-Type", eventStream)
			for n := range pings {
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", n)
				w.(http.Flusher).Flush()
				<-over
			}
			close(all)
			return true
		case !isHTTPReply(r):
			return false
		}
		w.WriteHeader(http.StatusAccepted)
		over <- struct{}{}
		return true
	})
	k := keep(t, quick(), web(ts.URL))
	<-all
	if got := k.call("echo", "{}"); got.IsError || strings.Contains(k.log.String(), "is down") {
		t.Errorf("%+v\n%s", got, k.log)
	}
}

// A reply that a server does not take is given up, in time and with the connection.
func TestRepliesThatTakeTooLong(t *testing.T) {
	t.Parallel()
	ts := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer ts.Close()
	send := func(limit time.Duration, c headerTransport) error {
		base := &http.Transport{}
		defer base.CloseIdleConnections()
		c.base, c.replyTimeout = base, limit
		resp, err := (&http.Client{Transport: c}).Post(ts.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"result":{}}`))
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := send(10*time.Millisecond, headerTransport{replies: newReplies()}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	over := headerTransport{replies: newReplies()}
	over.replies.end(errors.New("over"))
	if err := send(time.Hour, over); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n := over.replies.sending.Load(); n != 0 {
		t.Errorf("%d replies are still sent", n)
	}
}

// A process that does not read a message in time is replaced, whatever else it is asked meanwhile.
func TestWritesThatTakeTooLong(t *testing.T) {
	t.Parallel()
	hasty := quick()
	hasty.write, hasty.pause, hasty.pauses = 100*time.Millisecond, time.Hour, time.Hour
	k := keep(t, hasty, stdio("deaf"))
	results := make(chan tool.Done)
	echo := k.tool("mcp__s__echo")
	for range 3 {
		go func() {
			results <- echo.Call(t.Context(), tool.Call{Input: []byte(`{"x":"` + strings.Repeat("x", 1<<20) + `"}`)}).(tool.Done)
		}()
	}
	for range 3 {
		if got := <-results; !got.IsError || len(got.Text) > maxError {
			t.Errorf("%.300s", got.Text)
		}
	}
	k.logged("writing to the process: write |1: i/o timeout")
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/tool"
)

const token = "s3cret-of-the-operator"

// web is a server at an address, with a token that is a secret.
func web(url string) Server {
	return Server{Name: "s", URL: url, Timeout: time.Minute,
		Headers: []Header{{"Authorization", "Bearer " + token}, {"X-Key", token}}, secrets: []string{token, "Bearer " + token}}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	var keys, others atomic.Int64
	ts := overHTTP(t, newTestServer(), func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+token && r.Header.Get("X-Key") == token {
			keys.Add(1)
		} else {
			others.Add(1)
		}
		return false
	})
	k := keep(t, quick(), web(ts.URL))
	if got := k.call("echo", `{"a":1}`); got.IsError || got.Text != `{"a":1}` {
		t.Errorf("echo: %+v", got)
	}
	k.call("grow", "{}")
	k.eventually("the new tool is listed", func() bool {
		tools, _ := k.Tools(context.Background(), all)
		_, ok := tool.Lookup(tools, "mcp__s__grown")
		return ok
	})
	k.stop()
	if keys.Load() == 0 || others.Load() != 0 {
		t.Errorf("%d requests with the headers, %d without", keys.Load(), others.Load())
	}
}

// A server that is restarted knows its sessions no more: the call goes to the new one.
func TestRestart(t *testing.T) {
	t.Parallel()
	address := proctest.FreeAddress(t) // which nobody else takes while it is down
	first := serveAt(t, address)
	k := keep(t, quick(), web("http://"+address))
	k.call("echo", "{}")
	first.Close()
	// A child that is being started has the listener for a moment longer.
	k.eventually("nobody listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})

	done := make(chan tool.Done)
	go func() { done <- k.call("echo", `{"while":"down"}`) }()
	k.logged("an MCP server is down")
	serveAt(t, address)
	if got := <-done; got.IsError || got.Text != `{"while":"down"}` {
		t.Errorf("%+v\n%s", got, k.log)
	}
}

// serveAt serves a server at an address, until the test ends or it is closed.
func serveAt(t *testing.T, address string) *http.Server {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	one := newTestServer()
	t.Cleanup(func() { closeSessions(one) })
	server := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return one }, nil)}
	server.SetKeepAlivesEnabled(false) // or what is sent when it stops may have arrived or not
	go func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { server.Close() })
	return server
}

// A run waits for a server that nobody has reached yet: it may be about to start.
func TestComesLater(t *testing.T) {
	t.Parallel()
	address := proctest.FreeAddress(t)
	k := keep(t, quick(), web("http://"+address))
	k.logged("an MCP server is down")
	found := make(chan int)
	go func() {
		tools, _ := k.Tools(context.Background(), all)
		found <- len(tools)
	}()
	select {
	case n := <-found:
		t.Errorf("a run did not wait, and has %d tools", n)
	case <-time.After(50 * time.Millisecond):
		serveAt(t, address)
		if n := <-found; n == 0 {
			t.Errorf("a run that has waited has no tools\n%s", k.log)
		}
	}
}

// Redirects stay on the host, and what goes with requests does too.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, other.URL+"/?"+r.Header.Get("X-Key"), status)
				return true
			})
			quicker := quick()
			quicker.settle = 100 * time.Millisecond
			k := keep(t, quicker, web(ts.URL))
			k.logged("an MCP server is down")
			if tools, missing := k.Tools(context.Background(), all); len(tools) != 0 || len(missing) != 1 {
				t.Errorf("%d tools, missing %v", len(tools), missing)
			}
			if log := k.log.String(); strings.Contains(log, token) || !strings.Contains(log, "redirects to another host") {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
	t.Run("within", func(t *testing.T) {
		t.Parallel()
		ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/" {
				http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
			}
			return r.URL.Path == "/"
		})
		k := keep(t, quick(), web(ts.URL))
		if got := k.call("echo", "{}"); got.IsError {
			t.Errorf("%+v", got)
		}
	})
	t.Cleanup(func() {
		if n := elsewhere.Load(); n != 0 {
			t.Errorf("the other host had %d requests", n)
		}
	})
}

// Whatever an address answers is an error and no more.
func TestGarbage(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter){
		"a page": func(w http.ResponseWriter) { io.WriteString(w, "<html>welcome</html>") },
		"no JSON": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{")
		},
		"other JSON": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "[1]")
		},
		"broken events": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {\n\n")
		},
		"no events":      func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") },
		"without an end": func(w http.ResponseWriter) { endless(w, "application/json", "") },
		"a long event":   func(w http.ResponseWriter) { endless(w, "text/event-stream", "data: ") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fails atomic.Bool
			ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
				if fails.Load() && r.Method == http.MethodPost {
					answer(w)
					return true
				}
				return false
			})
			k := keep(t, quick(), web(ts.URL))
			k.tool("mcp__s__echo")
			fails.Store(true)
			if got := k.call("echo", "{}"); !got.IsError || len(got.Text) > maxError+10 {
				t.Errorf("%.500s", got.Text)
			}
			fails.Store(false)
			k.eventually("calls succeed", func() bool { return !k.call("echo", "{}").IsError })
		})
	}
}

// endless writes until the other side has had enough.
func endless(w http.ResponseWriter, kind, begin string) {
	w.Header().Set("Content-Type", kind)
	io.WriteString(w, begin)
	chunk := strings.Repeat("x", 1<<20)
	for {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

// The body of an error is bounded whatever its type says, since it is read whole.
func TestErrorBodiesAreBounded(t *testing.T) {
	t.Parallel()
	const offered = 6 * maxMessage
	for _, kind := range []string{"application/json", eventStream} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var fails atomic.Bool
			var taken atomic.Int64
			ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost || !fails.CompareAndSwap(true, false) {
					return false
				}
				w.Header().Set("Content-Type", kind)
				w.WriteHeader(http.StatusBadRequest)
				chunk := strings.Repeat("x", 1<<20)
				for range offered / len(chunk) {
					n, err := io.WriteString(w, chunk)
					taken.Add(int64(n))
					if err != nil {
						break
					}
				}
				return true
			})
			k := keep(t, quick(), web(ts.URL))
			k.tool("mcp__s__echo")
			fails.Store(true)
			if got := k.call("echo", "{}"); !got.IsError || taken.Load() == 0 || taken.Load() > offered/2 {
				t.Errorf("%d of %d bytes were taken: %.200s", taken.Load(), offered, got.Text)
			}
		})
	}
}

// A server of before 2026-07-28 may not answer what it does not know, or end because
// of it.
func TestOldServers(t *testing.T) {
	t.Parallel()
	old, stopped := newTestServer(), make(chan struct{})
	old.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "server/discover" {
				<-stopped
			}
			return next(ctx, method, req)
		}
	})
	ts := overHTTP(t, old, nil)
	quicker := quick()
	quicker.connect = time.Second
	k := keep(t, quicker, web(ts.URL))
	t.Cleanup(func() { close(stopped) })
	k.logged("an MCP server is connected")
	if got := k.call("echo", "{}"); got.IsError {
		t.Errorf("one that does not answer: %+v", got)
	}
	k = keep(t, quick(), stdio("strict"))
	if got := k.call("echo", "{}"); got.IsError {
		t.Errorf("one that ends: %+v", got)
	}
}

// A server may say for ever that it has more tools.
func TestEndlessList(t *testing.T) {
	t.Parallel()
	many := sdk.NewServer(&sdk.Implementation{Name: "many"}, &sdk.ServerOptions{PageSize: 10})
	for i := range 2 * maxTools {
		addRaw(many, &sdk.Tool{Name: fmt.Sprintf("t%04d", i)}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("x") })
	}
	ts := overHTTP(t, many, nil)
	k := keep(t, quick(), web(ts.URL))
	if tools, _ := k.Tools(context.Background(), all); len(tools) != maxTools {
		t.Errorf("%d tools", len(tools))
	}
	k.logged("has more than 500 tools")

	again := newTestServer()
	again.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if params, ok := req.GetParams().(*sdk.ListToolsParams); ok {
				params.Cursor = ""
			}
			result, err := next(ctx, method, req)
			if list, ok := result.(*sdk.ListToolsResult); ok && list != nil {
				list.Tools, list.NextCursor = list.Tools[:1], "more"
			}
			return result, err
		}
	})
	k = keep(t, quick(), web(overHTTP(t, again, nil).URL))
	if tools, _ := k.Tools(context.Background(), all); len(tools) != 1 {
		t.Errorf("%d tools", len(tools))
	}
	k.logged("it has the name of another tool")
	k.logged("the list has more than 100 pages")
}

// Of a long list the tools that are taken over count, not those before them.
func TestLongList(t *testing.T) {
	t.Parallel()
	many := sdk.NewServer(&sdk.Implementation{Name: "many"}, &sdk.ServerOptions{PageSize: 100})
	for i := range maxTools + 200 {
		addRaw(many, &sdk.Tool{Name: fmt.Sprintf("t%04d", i)}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("x") })
	}
	few := web(overHTTP(t, many, nil).URL)
	few.Tools = []string{"t0005", "t0650"}
	k := keep(t, quick(), few)
	if tools, _ := k.Tools(context.Background(), all); len(tools) != 2 {
		t.Errorf("%d tools", len(tools))
	}
}

// A call that hangs does not keep a lost session from being replaced; it ends with it.
func TestHangsInALostSession(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	server, entered, over := newTestServer(), make(chan struct{}, 10), make(chan struct{})
	addRaw(server, &sdk.Tool{Name: "wait"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		entered <- struct{}{}
		<-over
		return says("over")
	})
	ts := overHTTP(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && gone.CompareAndSwap(true, false) {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	t.Cleanup(func() { close(over) })
	k := keep(t, quick(), web(ts.URL))
	waiting := make(chan tool.Done)
	go func() { waiting <- k.call("wait", "{}") }()
	<-entered
	gone.Store(true)
	if got := k.call("echo", "{}"); got.IsError {
		t.Errorf("a call in the lost session: %+v", got)
	}
	if got := <-waiting; !got.IsError || !strings.Contains(got.Text, "was lost during the call") {
		t.Errorf("hanging: %+v", got)
	}
	if got := k.call("echo", "{}"); got.IsError {
		t.Errorf("after: %+v", got)
	}
	if n := len(entered); n != 0 {
		t.Errorf("it was called again %d times", n)
	}
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/tool"
)

// legacy makes a server one of before 2026-07-28.
func legacy(s *sdk.Server) *sdk.Server {
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "server/discover" {
				return nil, sdk.ErrConnectionClosed
			}
			return next(ctx, method, req)
		}
	})
	return s
}

// A server may keep the stream for what it says unasked waiting, for its first event
// or for ever: its tools are there, and the end does not wait for it.
func TestStreamThatNeverBegins(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*sdk.Server{"legacy": legacy(newTestServer()), "new": newTestServer()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 10)
			ts := overHTTP(t, server, func(_ http.ResponseWriter, r *http.Request) bool {
				if isListenRequest(r) {
					asked <- struct{}{}
					<-r.Context().Done()
					return true
				}
				return false
			})
			k := keep(t, quick(), web(ts.URL))
			if got := k.call("echo", "{}"); got.IsError {
				t.Errorf("%+v", got)
			}
			<-asked
			k.stop()
		})
	}
}

// However often that stream is cut, calls under way go on, and the tools that have
// changed meanwhile are found.
func TestStreamThatIsCut(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]*sdk.Server{"legacy": legacy(newTestServer()), "new": newTestServer()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var cuts atomic.Int64
			var whole atomic.Bool
			entered, over := make(chan struct{}), make(chan struct{})
			addRaw(server, &sdk.Tool{Name: "wait"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
				close(entered)
				<-over
				return says("over")
			})
			ts := overHTTP(t, server, func(w http.ResponseWriter, r *http.Request) bool {
				if isListenRequest(r) && !whole.Load() {
					w.Header().Set("Content-Type", eventStream)
					w.Write([]byte(": hello\n\nid: 1\ndata: nonsense\n\nno colon\n\ndata: {\"jsonrpc\":\"2.0\","))
					cuts.Add(1)
					return true
				}
				return false
			})
			k := keep(t, quick(), web(ts.URL))
			waiting := make(chan tool.Done)
			go func() { waiting <- k.call("wait", "{}") }()
			<-entered
			before := cuts.Load()
			k.eventually("it is cut often", func() bool { return cuts.Load() > before+10 })
			addRaw(server, &sdk.Tool{Name: "meanwhile"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("") })
			k.eventually("the new tool is listed", func() bool { return k.has("mcp__s__meanwhile") })
			close(over)
			if got := <-waiting; got.IsError || got.Text != "over" {
				t.Errorf("%+v", got)
			}
			whole.Store(true)
			k.eventually("the stream is there", func() bool {
				addRaw(server, &sdk.Tool{Name: "after"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("") })
				return k.has("mcp__s__after")
			})
			if log := k.log.String(); strings.Contains(log, "is down") {
				t.Errorf("the connection was lost:\n%s", log)
			}
		})
	}
}

// Tools that have changed are found though the server can't say so.
func TestChangesThatAreNotSaid(t *testing.T) {
	t.Parallel()
	server := legacy(newTestServer())
	ts := overHTTP(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if isListenRequest(r) {
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
		return isListenRequest(r)
	})
	often := quick()
	often.list = 10 * time.Millisecond
	k := keep(t, often, web(ts.URL))
	k.tool("mcp__s__echo")
	addRaw(server, &sdk.Tool{Name: "unsaid"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("") })
	k.eventually("the new tool is listed", func() bool { return k.has("mcp__s__unsaid") })
}

// A server that says for how long its list holds is not asked for it before, unlike one beside it.
func TestListsThatHold(t *testing.T) {
	t.Parallel()
	often := quick()
	often.list = 10 * time.Millisecond
	var lists [2]atomic.Int64
	var servers []Server
	for i, holds := range []time.Duration{time.Hour, 0} {
		server := sdk.NewServer(&sdk.Implementation{Name: "x", Version: "1"}, &sdk.ServerOptions{
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.TTLMs = int(holds.Milliseconds()) },
		})
		addRaw(server, &sdk.Tool{Name: "echo"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("") })
		server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
				if method == "tools/list" {
					lists[i].Add(1)
				}
				return next(ctx, method, req)
			}
		})
		one := web(overHTTP(t, server, nil).URL)
		one.Name = []string{"holds", "not"}[i]
		servers = append(servers, one)
	}
	k := keep(t, often, servers...)
	k.tool("mcp__holds__echo")
	k.eventually("the other one is listed again and again", func() bool { return lists[1].Load() > 2 })
	if n := lists[0].Load(); n != 1 {
		t.Errorf("the tools were listed %d times", n)
	}
	k.tool("mcp__holds__echo")
}

// A list that fails once the tools have changed is asked for again.
func TestListFails(t *testing.T) {
	t.Parallel()
	var lists atomic.Int64
	server := newTestServer()
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" && lists.Add(1) == 2 {
				return nil, errors.New("not now")
			}
			return next(ctx, method, req)
		}
	})
	k := keep(t, quick(), web(overHTTP(t, server, nil).URL))
	k.call("grow", "{}")
	k.eventually("the new tool is listed", func() bool { return k.has("mcp__s__grown") })
	if log := k.log.String(); !strings.Contains(log, "not now") || strings.Contains(log, "is down") {
		t.Errorf("the log:\n%s", log)
	}
}

// has reports whether there is a tool.
func (k *kept) has(name string) bool {
	tools, _ := k.Tools(context.Background(), all)
	_, ok := tool.Lookup(tools, name)
	return ok
}

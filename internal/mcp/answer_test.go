package mcp

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Every status is an error result that names it, and none holds a secret. What is over
// soon does not end the connection.
func TestStatuses(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 401, 403, 404, 405, 410, 422, 429, 500, 502, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			var fails atomic.Bool
			ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
				if fails.Load() && r.Method == http.MethodPost {
					w.WriteHeader(status)
					io.WriteString(w, r.Header.Get("Authorization"))
					return true
				}
				return false
			})
			quicker := quick()
			quicker.back = 200 * time.Millisecond
			k := keep(t, quicker, web(ts.URL))
			k.tool("mcp__s__echo")
			fails.Store(true)
			got := k.call("echo", "{}")
			named := strings.Contains(got.Text, http.StatusText(status))
			if status == http.StatusNotFound { // which ends a session; no server may have answered since
				named = named || strings.Contains(got.Text, sdk.ErrSessionMissing.Error())
			}
			if !got.IsError || !named || strings.Contains(got.Text, token) {
				t.Errorf("%+v", got)
			}
			fails.Store(false)
			k.eventually("calls succeed", func() bool { return !k.call("echo", "{}").IsError })
			if log := k.log.String(); strings.Contains(log, token) {
				t.Errorf("the log:\n%s", log)
			}
		})
	}
}

// A session that is over is one, whatever the answer says besides: the call is made in
// the next.
func TestSessionIsOver(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	ts := overHTTP(t, legacy(newTestServer()), func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && gone.CompareAndSwap(true, false) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`)
			return true
		}
		return false
	})
	k := keep(t, quick(), web(ts.URL))
	k.tool("mcp__s__echo")
	gone.Store(true)
	if got := k.call("echo", `{"a":1}`); got.IsError || got.Text != `{"a":1}` {
		t.Errorf("%+v", got)
	}
}

// A call that was answered with a failure of the server, or of what stands before it,
// may have had its effect; one that was turned away has not.
func TestMayHaveHadItsEffect(t *testing.T) {
	t.Parallel()
	for status, may := range map[int]bool{429: false, 500: true, 502: true, 503: false, 504: true} {
		var fails atomic.Bool
		ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
			if fails.Load() && r.Method == http.MethodPost {
				w.WriteHeader(status)
				return true
			}
			return false
		})
		k := keep(t, quick(), web(ts.URL))
		k.tool("mcp__s__echo")
		fails.Store(true)
		got := k.call("echo", "{}")
		if !got.IsError || strings.Contains(got.Text, "may have had its effect") != may || strings.Contains(got.Text, "did not take") == may {
			t.Errorf("%d: %+v", status, got)
		}
	}
}

// An answer that can't be read is no lost connection.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	for _, result := range []string{`{"content":[{"type":"hologram"}]}`, `{"content":7}`} {
		var fails atomic.Bool
		ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost || !fails.CompareAndSwap(true, false) {
				return false
			}
			var call struct{ ID json.RawMessage }
			if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, call.ID, result)
			return true
		})
		k := keep(t, quick(), web(ts.URL))
		k.tool("mcp__s__echo")
		fails.Store(true)
		got := k.call("echo", "{}")
		if !got.IsError || !strings.Contains(got.Text, "no answer that can be read") || strings.Contains(got.Text, "lost") {
			t.Errorf("%s: %+v", result, got)
		}
		if got := k.call("echo", "{}"); got.IsError || strings.Contains(k.log.String(), "is down") {
			t.Errorf("%s: afterwards: %+v\n%s", result, got, k.log)
		}
	}
}

// What has ended a connection is what callers are told until there is another attempt.
func TestTheReasonStays(t *testing.T) {
	t.Parallel()
	var fails atomic.Bool
	ts := overHTTP(t, newTestServer(), func(w http.ResponseWriter, r *http.Request) bool {
		if fails.Load() && r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	})
	once := quick()
	once.back, once.pause, once.pauses = 200*time.Millisecond, time.Hour, time.Hour
	k := keep(t, once, web(ts.URL))
	k.tool("mcp__s__echo")
	fails.Store(true)
	for range 2 {
		if got := k.call("echo", "{}"); !got.IsError || !strings.Contains(got.Text, sdk.ErrSessionMissing.Error()) {
			t.Errorf("%+v", got)
		}
	}
}

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"weak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// listOf lists the tools of pages, of which the session gets one result.
func listOf(t *testing.T, page func(n int) *sdk.ListToolsResult) (l *toolList, got *sdk.ListToolsResult, pages int) {
	t.Helper()
	l = &toolList{server: newServer(Server{Name: "s"}, nil, nil, quick())}
	params := &sdk.ListToolsParams{}
	list := listPages(func(context.Context, string, sdk.Request) (sdk.Result, error) {
		if pages > 0 && params.Cursor != fmt.Sprint("cursor ", pages) {
			t.Errorf("page %d is requested with %q", pages, params.Cursor)
		}
		result := page(pages)
		pages++
		if result.NextCursor != "" {
			result.NextCursor = fmt.Sprint("cursor ", pages)
		}
		return result, nil
	})
	result, err := list(context.WithValue(t.Context(), toolListKey{}, l), "tools/list", &sdk.ClientRequest[*sdk.ListToolsParams]{Params: params})
	if err != nil {
		t.Fatal(err)
	}
	if params.Cursor != "" {
		t.Errorf("the session is left with the cursor %q", params.Cursor)
	}
	return l, result.(*sdk.ListToolsResult), pages
}

// Of a list whose pages are as large as a message may be, only what is used is kept: by the server,
// and by the session, which remembers each result.
func TestPagesAreNotKept(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 1<<20)
	var before []weak.Pointer[[1 << 16]byte]
	l, got, pages := listOf(t, func(n int) *sdk.ListToolsResult {
		runtime.GC()
		for i, of := range before[:max(0, len(before)-1)] { // the last one may be on the stack
			if of.Value() != nil {
				t.Errorf("when page %d is requested, page %d is still held", n, i)
			}
		}
		part := new([1 << 16]byte)
		before = append(before, weak.Make(part))
		fine := map[string]any{"type": "object"}
		result := &sdk.ListToolsResult{Tools: []*sdk.Tool{
			{Name: fmt.Sprintf("large%d", n), InputSchema: map[string]any{"x": part}},
			{Name: fmt.Sprintf("wordy%d", n), Description: large, Title: large, OutputSchema: large, Meta: sdk.Meta{"x": large}, InputSchema: fine},
			{Name: fmt.Sprintf("named%d%s", n, large), InputSchema: fine},
		}}
		if n < 9 {
			result.NextCursor = "more"
		}
		return result
	})
	if len(l.offers) != pages || len(l.omitted) != 2*pages || pages != 10 {
		t.Errorf("%d pages, %d tools, %d left out", pages, len(l.offers), len(l.omitted))
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range l.offers {
		text = append(text, o.own+o.spec.Description+string(o.spec.Schema)...)
	}
	for _, o := range l.omitted {
		if strings.HasPrefix(o.own, "large") && !strings.Contains(o.why.Error(), "its input schema has 131") {
			t.Errorf("%s: %v", o.own, o.why)
		}
		text = append(text, o.own+o.why.Error()...)
	}
	if len(text) > len(large)/4 {
		t.Errorf("%d bytes are kept", len(text))
	}
}

// A page may consist of any number of tools, each of them tiny, usable or not.
func TestTinyToolsAreNotKept(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]any{"usable": map[string]any{}, "not usable": 7} {
		l, got, pages := listOf(t, func(int) *sdk.ListToolsResult {
			page := &sdk.ListToolsResult{NextCursor: "more"}
			for i := range 5 * maxTools {
				page.Tools = append(page.Tools, &sdk.Tool{Name: fmt.Sprint(i), InputSchema: schema})
			}
			return page
		})
		if len(l.own) > 2*maxTools || len(l.offers) > maxTools || len(l.omitted) > maxTools || len(got.Tools) > maxTools {
			t.Errorf("%s: %d names, %d tools, %d left out, %d for the session", name, len(l.own), len(l.offers), len(l.omitted), len(got.Tools))
		}
		if all, want := len(l.offers)+len(l.omitted)+l.more, 5*maxTools*pages; all != want {
			t.Errorf("%s: %d tools are accounted for, not %d", name, all, want)
		}
		if full := name == "usable"; l.full != full || l.cut == full || (pages == 1) != full {
			t.Errorf("%s: %d pages, full: %t, cut: %t", name, pages, l.full, l.cut)
		}
	}
}

// A tool that the session does not accept is no tool that can be called.
func TestToolsOfInvalidHeaders(t *testing.T) {
	t.Parallel()
	l, got, _ := listOf(t, func(int) *sdk.ListToolsResult {
		return &sdk.ListToolsResult{Tools: []*sdk.Tool{{Name: "a", InputSchema: map[string]any{}}, {Name: "b", InputSchema: map[string]any{}}}}
	})
	offers, omitted := l.finish(slices.DeleteFunc(got.Tools, func(t *sdk.Tool) bool { return t.Name == "a" }))
	if len(offers) != 1 || offers[0].own != "b" || len(omitted) != 1 || omitted[0].own != "a" {
		t.Errorf("offers %v, omitted %v", offers, omitted)
	}
}

// The session still knows which arguments of a call the server wants in headers.
func TestArgumentsInHeaders(t *testing.T) {
	t.Parallel()
	server := newTestServer()
	addRaw(server, &sdk.Tool{Name: "weather", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"city":{"type":"string","x-mcp-header":"City"}}}`,
	)}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("sunny") })
	var city atomic.Value
	stateless := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	ts := overHTTP(t, server, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Mcp-Method") == "tools/call" {
			city.Store(r.Header.Get("Mcp-Param-City"))
		}
		stateless.ServeHTTP(w, r)
		return true
	})
	k := keep(t, quick(), web(ts.URL))
	if got := k.call("weather", `{"city":"Rome"}`); got.IsError || city.Load() != "Rome" {
		t.Errorf("the header says %v: %+v", city.Load(), got)
	}
}

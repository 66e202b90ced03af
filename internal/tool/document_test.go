package tool

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/redact"
)

// A call does not outlast its context, however many documents are being converted.
func TestWebFetchWaitsForConversions(t *testing.T) {
	t.Parallel()
	served := make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "a page")
		served <- struct{}{}
	}))
	t.Cleanup(server.Close)
	allowed, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	must(t, err)
	tool := newWebFetch(outbound.Dialer{Exempt: allowed.Exempt})
	for range maxConversions {
		tool.conversions <- struct{}{}
	}
	call := Call{Input: fmt.Appendf(nil, `{"url":%q}`, server.URL)}
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan Done, 2)
	go func() { results <- tool.Call(ctx, call).(Done) }()
	<-served
	cancel()
	if got := <-results; !got.IsError {
		t.Errorf("%+v", got)
	}
	go func() { results <- tool.Call(t.Context(), call).(Done) }()
	<-served
	<-tool.conversions
	if got := <-results; got.IsError || !strings.HasSuffix(got.Text, "a page") {
		t.Errorf("%+v", got)
	}
}

// No secret of a long document is kept or shown, and none is cut in two first.
func TestWebFetchKeepsNoSecret(t *testing.T) {
	t.Parallel()
	const key = "sk-abcDEFghi0123456789"
	page := "<title>" + strings.Repeat(key, 200) + "</title><p>" + strings.Repeat(key, 10_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Set("Content-Type", "text/html"); r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		io.WriteString(w, page)
	}))
	t.Cleanup(server.Close)
	allowed, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	must(t, err)
	secrets, _ := redact.New(redact.Secret{Name: "THE_KEY", Value: key})
	tool, ws := newWebFetch(outbound.Dialer{Exempt: allowed.Exempt}), setup(t)
	for _, path := range []string{"/", "/missing"} {
		call := Call{Input: fmt.Appendf(nil, `{"url":%q}`, server.URL+path), Workspace: ws, Secrets: secrets}
		got := tool.Call(t.Context(), call).(Done)
		kept := ""
		if m := namedFile.FindStringSubmatch(got.Text); m != nil {
			data, err := os.ReadFile(filepath.Join(ws.Dir(), m[1]))
			must(t, err)
			kept = string(data)
		}
		if (kept != "") != (path == "/") || !strings.Contains(got.Text, "[redacted: THE_KEY]") {
			t.Errorf("%s: %d bytes are kept of %.300q", path, len(kept), got.Text)
		}
		for _, part := range []string{key[:6], key[len(key)-6:]} {
			if strings.Contains(got.Text+kept, part) {
				t.Errorf("%s: a part of the key is left", path)
			}
		}
	}
}

// Addresses do not make a result longer than others: neither one that is long by itself, nor one that
// is written with a third of the characters that it is sent with.
func TestWebFetchBoundsAddresses(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("a", 50_000)
	fetch := fetching(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/far":
			w.Header().Set("Location", "https://example.com"+long)
			w.WriteHeader(http.StatusFound)
		case "/near":
			w.Header().Set("Location", long)
			w.WriteHeader(http.StatusFound)
		case "/image":
			w.Header().Set("Content-Type", "image/png")
		default:
			fmt.Fprint(w, "the text")
		}
	})
	for path, want := range map[string]string{
		"/far":                                "http://HOST/far redirects to another host, which is not followed: https://example.com/aaa",
		"/near":                               "\n\nthe text",
		"/" + strings.Repeat("語", 4000):       "\n\nthe text",
		"/image?" + strings.Repeat("語", 4000): "… is of the type image/png",
	} {
		if got := fetch(path); got.IsError || !strings.Contains(got.Text, want) {
			t.Errorf("%.20s: %d bytes without %q: %.100q", path, len(got.Text), want, got.Text)
		}
	}
}

// The reason of a failure follows the address, and is there though that is long.
func TestWebFetchSaysWhyItFailed(t *testing.T) {
	t.Parallel()
	fetch := fetching(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if got := fetch("/?q=" + strings.Repeat("q", 3000)); !got.IsError || !strings.HasSuffix(got.Text, ": EOF") {
		t.Errorf("%d bytes: %.20q, %.50q", len(got.Text), got.Text, got.Text[max(0, len(got.Text)-50):])
	}
}

package fakellm_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// TestAnAnswerThatIsNoStream: a server that answers 200 with something else has refused, and
// what it said is what a person reads.
func TestAnAnswerThatIsNoStream(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		for name, test := range map[string]struct {
			what, said string
			want       model.ErrorKind
		}{
			"no such endpoint": {"application/json", `{"error":"Unexpected endpoint or method. (POST /chat/completions)"}`, model.ErrorInvalid},
			"a page":           {"text/html; charset=utf-8", "\n<!doctype html><title>Open WebUI</title>", model.ErrorInvalid},
			"a whole answer":   {"application/json", `{"object":"chat.completion","choices":[]}`, model.ErrorInvalid},
			"an overload":      {"application/json", `{"error":{"type":"overloaded_error","message":"later"}}`, model.ErrorOverloaded},
			"too long":         {"application/json", `{"error":{"message":"This model's maximum context length is 12000 tokens."}}`, model.ErrorTooLong},
			"a long page":      {"text/html", "<p>" + strings.Repeat("x", 1<<20), model.ErrorInvalid},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := replay{header: http.Header{"Content-Type": {test.what}}, body: []byte(test.said)}
				_, err := apis[api](t, "http://h", &http.Client{Transport: server}).Generate(t.Context(), ask(), nil)
				failed, known := errors.AsType[*model.Error](err)
				begins := strings.TrimSpace(test.said)
				begins = begins[:min(len(begins), 50)]
				if !known || failed.Kind != test.want || !strings.Contains(err.Error(), "instead of a stream: "+begins) || len(err.Error()) > 3000 {
					t.Errorf("%.200v", err)
				}
			})
		}
	})
}

// TestAStreamUnderAnotherName: what it is called does not count if it is one.
func TestAStreamUnderAnotherName(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		whole := record(t, api, rich())
		whole.header = http.Header{"Content-Type": {"application/json"}}
		if _, err := apis[api](t, "http://h", &http.Client{Transport: whole}).Generate(t.Context(), ask(), nil); err != nil {
			t.Error(err)
		}
	})
}

// TestARedirectIsNotFollowed: a redirect, to another server or to the same, fails the request, which
// goes nowhere else, and the error names no more of the target than its server.
func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		for _, status := range []int{301, 302, 303, 304, 307, 308} {
			for location, named := range map[string]string{
				"http://elsewhere.example/v2?token=s": "to http://elsewhere.example:", "/v2?token=s": "to http://127.0.0.1:", "": "elsewhere",
			} {
				asked, err := redirected(t, api, status, location)
				failed, is := errors.AsType[*model.Error](err)
				if !is || failed.Kind != model.ErrorInvalid || !strings.Contains(err.Error(), named) || strings.Contains(err.Error(), "token") {
					t.Errorf("%d to %q: %v", status, location, err)
				}
				if asked != 1 {
					t.Errorf("%d to %q: %d requests", status, location, asked)
				}
			}
		}
	})
}

// redirected makes a request to a server that redirects it. It returns how often that
// server was asked.
func redirected(t *testing.T, api string, status int, location string) (requests int64, _ error) {
	t.Helper()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	client := upstream.NewClient(upstream.DefaultTimeouts())
	defer client.CloseIdleConnections()
	_, err := apis[api](t, server.URL, client).Generate(t.Context(), ask(), nil)
	return asked.Load(), err
}

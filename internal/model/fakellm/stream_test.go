package fakellm_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
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

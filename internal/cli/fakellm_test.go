package cli

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/tree"
)

// brief is a model that says yes.
type brief struct{}

func (brief) Generate(context.Context, *model.Request, func(model.Delta)) (*model.Answer, error) {
	return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "yes"}}, Stop: tree.StopEndTurn}, nil
}

// TestTheFakeCountsWhatItReceived: what the rate limit refused was received too.
func TestTheFakeCountsWhatItReceived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // no time passes, so there is room for one
		fake := fakellm.New(fakellm.Config{Model: brief{}, Rate: 1})
		for _, want := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusTooManyRequests} {
			req := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(
				`{"model": "m", "stream": true, "stream_options": {"include_usage": true}, "messages": [{"role": "user", "content": "well?"}]}`))
			req.Header.Set("Authorization", "Bearer k")
			answer := httptest.NewRecorder()
			fake.ServeHTTP(answer, req)
			if answer.Code != want {
				t.Fatalf("status %d, want %d: %s", answer.Code, want, answer.Body)
			}
		}
		if got, want := countsText(fake.Counts()), "3 requests received, 1 answered completely, 2 rate limited"; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	})
}

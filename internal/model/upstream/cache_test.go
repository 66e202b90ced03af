package upstream

import (
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

func TestLearned(t *testing.T) {
	t.Parallel()
	of := func(n int) *model.Request { return &model.Request{Task: tree.TaskID{byte(n >> 8), byte(n), 1}} }
	var l ConversationCache[string]
	l.Put("m", of(0), "a")
	l.Put("m", &model.Request{}, "b")
	for _, c := range []struct {
		model string
		req   *model.Request
		want  string
	}{{"m", of(0), "a"}, {"n", of(0), ""}, {"m", of(1), ""}, {"m", &model.Request{}, ""}} {
		if got := l.Get(c.model, c.req); got != c.want {
			t.Errorf("of %s and %s: %q, want %q", c.model, c.req.Task, got, c.want)
		}
	}
	for n := range 2 * maxConversations {
		l.Put("m", of(n), "a")
		if len(l.values) > maxConversations || l.Get("m", of(n)) != "a" {
			t.Fatalf("%d are kept, and of the last one %q", len(l.values), l.Get("m", of(n)))
		}
	}
}

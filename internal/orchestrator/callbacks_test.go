package orchestrator_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/callback"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestAHostThatHangsHoldsUpNoOther: while the callbacks of one tenant get no answer, however many
// are due, those of another tenant are made. Once they get answers, all are made.
func TestAHostThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	const late = time.Minute
	svc := setup(t)
	var err error
	if svc.Callbacks, err = callback.New(callback.Config{Hosts: []string{"127.0.0.1"}, Timeout: time.Hour}); err != nil {
		t.Fatal(err)
	}
	const ended = orchestrator.CallbacksAtOnce + 1
	hanging, answered := make(chan string, ended), make(chan string, 1)
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	ending := func(tenant string, runs int, answer http.HandlerFunc) {
		server := httptest.NewServer(answer)
		t.Cleanup(server.Close)
		_, err := svc.PutAgent(t.Context(), tenant, "---\nname: caller\ndescription: Calls.\nmode: primary\non_complete: "+server.URL+"/ended\n---\nYou call.\n")
		if err != nil {
			t.Fatal(err)
		}
		for range runs {
			session, _, err := svc.CreateSession(t.Context(), tenant, orchestrator.SessionSpec{Agent: "caller", Text: "go"}, orchestrator.Idempotency{})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := svc.CancelTask(t.Context(), tenant, session.ID, tree.Cancel{Detail: "enough"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ending("acme", ended, func(_ http.ResponseWriter, r *http.Request) {
		hanging <- r.Header.Get(callback.KeyHeader)
		<-released
	})
	t.Cleanup(release)
	ending("other", 1, func(_ http.ResponseWriter, r *http.Request) { answered <- r.Header.Get(callback.KeyHeader) })
	_, stop := run(t, svc)
	defer stop()
	select {
	case <-answered:
	case <-time.After(late):
		t.Fatalf("%d calls hang, and the other tenant's is not made", len(hanging))
	}
	if n := len(hanging); n > orchestrator.CallbacksOfHost {
		t.Errorf("a host has %d calls at once", n)
	}
	release()
	called := map[string]bool{}
	for range ended {
		select {
		case key := <-hanging:
			called[key] = true
		case <-time.After(late):
			t.Fatalf("of %d calls %d were made once the host answered", ended, len(called))
		}
	}
	if len(called) != ended {
		t.Errorf("%d calls were made for %d runs", ended, len(called))
	}
}

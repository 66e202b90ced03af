package assembly_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/proctest"
)

func TestServeProfiles(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	address := proctest.FreeAddress(t)
	stop, err := assembly.ServeProfiles(t.Context(), address, log)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get("http://" + address + "/debug/pprof/heap?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(page), "# HeapAlloc = ") {
		t.Errorf("the profile is no profile: %.100q, %v", page, err)
	}
	stop()
	if answer, err := http.Get("http://" + address + "/debug/pprof/"); err == nil {
		answer.Body.Close()
		t.Error("profiles are served after they were stopped")
	}
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		if stop, err := assembly.ServeProfiles(t.Context(), listen, log); err == nil {
			stop()
			t.Errorf("profiles are served on %s, to other machines", listen)
		}
	}
}

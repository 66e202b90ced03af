package main

import (
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/bench/installation"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestRoundsOfManyParents: one parent may not have so many children.
func TestRoundsOfManyParents(t *testing.T) {
	binaries, err := installation.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := binaries.Remove(); err != nil {
			t.Error(err)
		}
	}()
	i, err := installation.Start(t.Context(), installation.Options{Kind: installation.Embedded, Binaries: binaries, Slots: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := i.Stop(); err != nil {
			t.Error(err)
		}
	}()
	const asked = 1_040
	done, err := workloads["rounds"](t.Context(), i, &settings{}, asked)
	if err != nil || done != asked {
		t.Errorf("of %d rounds there were %d, %v", asked, done, err)
	}
	list, err := i.Sessions().ListSessions(t.Context(), &pb.ListSessionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	tasks := 0
	for _, s := range list.GetSessions() {
		tasks += int(s.GetTasks().GetTotal()) - 1
	}
	if tasks != asked {
		t.Errorf("the parents have %d children, want %d", tasks, asked)
	}
}

// TestTurnsAreComparedInPairs: a slow minute strikes both turns of a round, so their ratio tells more
// than that of the medians.
func TestTurnsAreComparedInPairs(t *testing.T) {
	t.Parallel()
	of := func(rates ...float64) *build {
		b := &build{turns: map[string][]turn{}}
		for _, rate := range rates {
			b.turns["fan"] = append(b.turns["fan"], turn{rate: rate, used: map[string]time.Duration{"worker": time.Duration(1e9 / rate)}})
		}
		return b
	}
	first, second := of(100, 400, 200), of(200, 600, 100)
	if got, want := summary("fan", second, first), "1.500 × the rate for 0.667 of the CPU"; !strings.HasSuffix(got, want) {
		t.Errorf("the summary is %q, want it to end with %q", got, want)
	}
}

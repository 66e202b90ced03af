package orchestrator

import (
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// TestSilence: the longest silence counts among the attempts of agents. A command is silent while
// it prints nothing, and does not count.
func TestSilence(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	attempt := func(id byte, kind tree.Kind, reported time.Duration) *lease {
		return newLease(&tree.Task{
			ID: tree.TaskID{id}, Kind: kind, Epoch: 1,
			CurrentRun:     tree.CurrentRun{State: tree.StateRunning, ReportedAt: began.Add(reported)},
			CurrentAttempt: tree.CurrentAttempt{ClaimedAt: began.Add(time.Minute)},
		}, "acme", workerInfo{})
	}
	l := newLeases()
	silent := func(what string, at, want time.Duration) {
		t.Helper()
		if got := l.longestSilence(began.Add(at)); got != want {
			t.Errorf("%s: silent for %s, want %s", what, got, want)
		}
	}
	silent("nothing runs", time.Hour, 0)
	command, agent, busy := attempt(1, tree.KindShell, 0), attempt(2, tree.KindAgent, 0), attempt(3, tree.KindAgent, 2*time.Minute)
	l.add(command, nil, make(chan struct{}, 1))
	silent("a command", time.Hour, 0)
	l.add(busy, nil, make(chan struct{}, 1))
	silent("since it has reported", 3*time.Minute, time.Minute)
	l.add(agent, nil, make(chan struct{}, 1))
	silent("since it was taken", 3*time.Minute, 2*time.Minute)
	agent.touch(began.Add(5 * time.Minute))
	command.touch(began)
	silent("the other one", 6*time.Minute, 4*time.Minute)
	l.revoke(tree.SessionID{}, tree.TaskID{3}, 1)
	silent("the other one was ended", 7*time.Minute, 2*time.Minute)
	l.drop(agent)
	silent("all have ended", time.Hour, 0)
}

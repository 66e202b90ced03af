package assembly_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// signal sends a signal to a process.
func (d *deployment) signal(name string, sig syscall.Signal) {
	d.t.Helper()
	if err := d.processes[name].Process.Signal(sig); err != nil {
		d.t.Errorf("sending %s to %s: %v", sig, name, err)
	}
}

// named gives the name under which a worker's process was started; empty if it is
// gone. A worker's id is its host, its process and a random part.
func (d *deployment) named(worker string) string {
	parts := strings.Split(worker, "-")
	pid, err := strconv.Atoi(parts[len(parts)-2])
	if err != nil {
		d.t.Fatalf("worker %s: %v", worker, err)
	}
	for name, cmd := range d.processes {
		if cmd.Process.Pid == pid {
			return name
		}
	}
	return ""
}

// lateness is how long after the end of its worker each run was offered again.
func lateness(all []watched, ended map[string]time.Time) (late figures) {
	for _, w := range all {
		last := map[string]string{} // who had a task
		for _, e := range w.events {
			if d := e.GetDispatched(); d != nil {
				last[e.GetTaskId()] = d.GetWorkerId()
			}
			if e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED {
				late = append(late, e.GetTime().AsTime().Sub(ended[last[e.GetTaskId()]]))
			}
		}
	}
	return late
}

// strikeWorkers grows trees and ends the workers that just took something, one
// after another. No run is struck again before it has come further, since one that loses
// three workers in a row is not gone on with. It gives what was seen, and when each worker
// ended.
func (d *deployment) strikeWorkers(c *client, n int, strike func(name string)) ([]watched, map[string]time.Time) {
	d.t.Helper()
	ended := map[string]time.Time{}
	var all []watched
	for struck := 0; struck < n; {
		seen, hurt := 0, map[string]bool{} // by task
		all = append(all, c.follow(c.create("go").GetId(), func(e *pb.Event) {
			switch {
			case e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED:
				hurt[e.GetTaskId()] = true
			case e.GetDispatched() == nil:
				delete(hurt, e.GetTaskId())
			}
			if seen++; seen < 25 || len(hurt) > 0 || e.GetDispatched() == nil || struck == n {
				return
			}
			if name := d.named(e.GetDispatched().GetWorkerId()); name != "" {
				ended[e.GetDispatched().GetWorkerId()] = time.Now()
				strike(name)
				d.startWorker(name)
				seen = 0
				struck++
			}
		}))
	}
	return all, ended
}

// TestKilledWorkersAreReplaced kills one worker after another. Their runs go on
// elsewhere, and the conversations are those of a tree that nobody has disturbed.
func TestKilledWorkersAreReplaced(t *testing.T) {
	t.Parallel()
	d := deploy(t, slow)
	d.startAll()
	c := d.client()
	undisturbed := c.follow(c.create("go").GetId(), func(*pb.Event) {})
	all, ended := d.strikeWorkers(c, often(4, 500), d.kill)
	c.survived(all)
	late := lateness(all, ended)
	if len(late) == 0 {
		t.Error("no worker had anything when it was killed")
	}
	want := c.said(undisturbed.session)
	for _, w := range all {
		sameLines(t, c.said(w.session), want)
	}
	t.Logf("%d trees; runs were offered again after %s", len(all), late)
}

// sameLines shows where two texts begin to differ.
func sameLines(t *testing.T, got, want string) {
	t.Helper()
	lines, wanted := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(lines), len(wanted)) {
		if i >= len(lines) || i >= len(wanted) || lines[i] != wanted[i] {
			t.Errorf("of %d and %d lines, the first to differ are\n%q\n%q", len(lines), len(wanted),
				lines[min(i, len(lines)-1)], wanted[min(i, len(wanted)-1)])
			return
		}
	}
}

// TestAWorkerHandsOver asks one worker after another to end: it does so soon, and
// its runs are offered to others at once.
func TestAWorkerHandsOver(t *testing.T) {
	t.Parallel()
	d := deploy(t, slow)
	d.startAll()
	c := d.client()
	var exits figures
	all, ended := d.strikeWorkers(c, often(4, 200), func(name string) {
		exits = append(exits, d.terminate(name))
	})
	c.survived(all)
	late := lateness(all, ended)
	if len(late) == 0 {
		t.Error("no worker had anything when it was asked to end")
	}
	t.Logf("workers ended within %s; runs were offered again after %s", exits, late)
}

// TestHandingOverIsNobodysFault hands one run over more often than a run may lose
// its worker.
func TestHandingOverIsNobodysFault(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{delay: 1h, text: late}]`)
	d.startOrchestrator(0)
	c := d.client()
	session := c.create("go").GetId()
	const times = 5
	given := 0
	var late figures
	var asked time.Time
	d.startWorker("worker 1")
	w := c.follow(session, func(e *pb.Event) {
		if e.GetReady().GetCause() == pb.ReadyCause_READY_CAUSE_REDELIVERED {
			late = append(late, e.GetTime().AsTime().Sub(asked))
		}
		if e.GetDispatched() == nil || given > times {
			return
		}
		if given++; given == times {
			if err := os.WriteFile(filepath.Join(d.dir, "scenario.yaml"), []byte(`steps: [{text: at last}]`), 0o600); err != nil {
				t.Error(err)
			}
		}
		if given <= times {
			asked = time.Now()
			d.terminate("worker 1")
			d.startWorker("worker 1")
		}
	})
	if root := c.wait(session, ""); root.GetResult() != "at last" {
		t.Errorf("the root ended %s %s: %s", root.GetState(), root.GetReason(), root.GetDetail())
	}
	if n := len(redelivered([]watched{w})); n != times {
		t.Errorf("the run was handed over %d times, want %d", n, times)
	}
	t.Logf("handed over after %s", late)
	c.sound()
}

// TestAFrozenWorkerWakesUp freezes a worker until its run has gone to another one,
// and then lets it say what it has to say.
func TestAFrozenWorkerWakesUp(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{delay: 1500ms, text: done}]`)
	d.startAll()
	c := d.client()
	pauses := often(2, 100)
	var late figures
	for range pauses {
		frozen, at := "", time.Time{}
		w := c.follow(c.create("go").GetId(), func(e *pb.Event) {
			switch {
			case e.GetDispatched() == nil:
			case frozen == "":
				frozen, at = d.named(e.GetDispatched().GetWorkerId()), time.Now()
				d.signal(frozen, syscall.SIGSTOP)
			default:
				late = append(late, time.Since(at))
				d.signal(frozen, syscall.SIGCONT) // while the new attempt runs
			}
		})
		if n := len(redelivered([]watched{w})); n != 1 {
			t.Errorf("the run was redelivered %d times", n)
		}
		checkDeliveries(t, w.events)
		checkTree(t, c.tasks(w.session), w.events, 1)
		if all := c.transcript(w.session, c.root(w.session)); len(all) != 2 {
			t.Errorf("%d messages, want the question and one answer: %v", len(all), all)
		}
	}
	t.Logf("other workers took the runs over after %s", late)
	c.sound()
}

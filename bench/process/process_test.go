package process

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// shell runs a script.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start("shell", "/bin/sh", []string{"-c", script}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// waiting runs a script, after which it waits for a signal.
func waiting(t *testing.T, script string) *Process {
	t.Helper()
	p := shell(t, script+"; echo up; while :; do sleep 0.01; done")
	err := p.Await(t.Context(), func(context.Context) error {
		if log, err := os.ReadFile(p.Log); err != nil || !strings.Contains(string(log), "up\n") {
			return errors.Join(errors.New("it is not up"), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStopTellsHowItEnded(t *testing.T) {
	t.Parallel()
	if err := waiting(t, "trap 'exit 0' TERM").Stop(); err != nil {
		t.Errorf("it ended as it was asked to: %v", err)
	}
	if err := waiting(t, "trap 'exit 3' TERM").Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("it failed while it stopped: %v", err)
	}
	crashed := shell(t, "exit 4")
	<-crashed.done
	if err := crashed.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 4") {
		t.Errorf("it was gone before: %v", err)
	}
	killed := waiting(t, ":")
	for range 2 {
		if err := errors.Join(killed.Kill(), killed.Stop()); err != nil {
			t.Errorf("it was killed, as it should be: %v", err)
		}
	}
}

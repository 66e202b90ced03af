package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/callback"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// callbackPatience is how long a run in this process waits at its end for callbacks: as long
// as a call may take, and what it takes until it is made.
const callbackPatience = callback.DefaultTimeout + 2*time.Second

// errAllCalled ends a watch for the ends of callbacks.
var errAllCalled = errors.New("all callbacks have ended")

// callBack waits until the callbacks of a session in this process have ended, for nobody makes
// them when it has stopped, and says what came of each. That goes beside standard output,
// which ends with the answer. owing reports whether some have not ended.
func (r *runCommand) callBack(ctx context.Context, a *app, running *assembly.Running, session string) (owing bool) {
	callbacks, err := running.Owed(ctx, session)
	if len(callbacks) == 0 {
		if err != nil && ctx.Err() == nil {
			a.complain("looking for callbacks: " + err.Error())
		}
		return false
	}
	urls := map[tree.ChildRun]string{}
	for _, c := range callbacks {
		urls[tree.ChildRun{Task: c.Task, Run: c.Run}] = c.URL
	}
	if !r.Quiet {
		a.complain(fmt.Sprintf("waiting for %s, for up to %s", owedText(urls), callbackPatience))
	}
	ctx, cancel := context.WithTimeout(ctx, callbackPatience)
	defer cancel()
	w := &watching{client: newClient(running.Conn()).sessions, session: session}
	_, err = w.each(ctx, func(step *pb.WatchSessionResponse) error {
		ended := step.GetEvent().GetCallbackEnded()
		task, err := tree.ParseID[tree.Task](step.GetEvent().GetTaskId())
		of := tree.ChildRun{Task: task, Run: int(ended.GetRun())}
		if _, owed := urls[of]; ended == nil || err != nil || !owed {
			return nil
		}
		delete(urls, of)
		if !r.Quiet || !ended.GetDelivered() {
			a.complain(callbackText(ended))
		}
		if len(urls) == 0 {
			return errAllCalled
		}
		return nil
	})
	switch {
	case len(urls) == 0:
		return false
	case ctx.Err() == nil:
		a.complain("waiting for callbacks: " + err.Error())
	}
	a.complain("without an answer: " + owedText(urls))
	return true
}

// owedText names callbacks.
func owedText(urls map[tree.ChildRun]string) string {
	for _, url := range urls {
		if len(urls) > 1 {
			return fmt.Sprintf("%d callbacks, such as the one to %s", len(urls), safeLine(url))
		}
		return "the callback to " + safeLine(url)
	}
	return "no callback"
}

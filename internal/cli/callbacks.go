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

// callbackTimeout is how long a run in this process waits for callbacks at its end: the timeout of
// a call, and the time until it is made.
const callbackTimeout = callback.DefaultTimeout + 2*time.Second

// errAllCalled ends a watch when all callbacks have ended.
var errAllCalled = errors.New("all callbacks have ended")

// waitCallbacks waits for the callbacks of a session in this process, because nobody makes them
// once the process has stopped. On standard error it reports the callbacks that ended after the
// event seen. owing reports whether some have not ended.
func (r *runCommand) waitCallbacks(ctx context.Context, a *app, running *assembly.Running, session string, seen int64) (owing bool) {
	ctx, cancel := context.WithTimeout(ctx, callbackTimeout)
	defer cancel()
	callbacks, err := running.PendingCallbacks(ctx, session)
	urls := map[tree.ChildRun]string{}
	for _, c := range callbacks {
		urls[tree.ChildRun{Task: c.Task, Run: c.Run}] = c.URL
	}
	if len(urls) > 0 && !r.Quiet {
		a.complain(fmt.Sprintf("waiting for %s, for up to %s", callbacksText(urls), callbackTimeout))
	}
	w := &watcher{client: newClient(running.Conn()).sessions, session: session, after: seen, untilIdle: len(urls) == 0}
	if err == nil && (seen > 0 || len(urls) > 0) {
		_, err = w.each(ctx, func(step *pb.WatchSessionResponse) error { return r.callbackEnded(a, step.GetEvent(), urls) })
	}
	if err != nil && !errors.Is(err, errAllCalled) && ctx.Err() == nil {
		a.complain("waiting for callbacks: " + err.Error())
	}
	if len(urls) > 0 {
		a.complain("still unanswered: " + callbacksText(urls))
	}
	return len(urls) > 0
}

// callbackEnded processes an event. If it is the end of a callback, it is reported and removed
// from urls. After the last one the watch ends.
func (r *runCommand) callbackEnded(a *app, e *pb.Event, urls map[tree.ChildRun]string) error {
	ended := e.GetCallbackEnded()
	if ended == nil {
		return nil
	}
	if !r.Quiet || !ended.GetDelivered() {
		a.complain(callbackText(ended))
	}
	task, err := tree.ParseID[tree.Task](e.GetTaskId())
	of := tree.ChildRun{Task: task, Run: int(ended.GetRun())}
	if _, owed := urls[of]; err != nil || !owed {
		return err
	}
	if delete(urls, of); len(urls) == 0 {
		return errAllCalled
	}
	return nil
}

// callbacksText names callbacks.
func callbacksText(urls map[tree.ChildRun]string) string {
	for _, url := range urls {
		if len(urls) > 1 {
			return fmt.Sprintf("%d callbacks, such as the one to %s", len(urls), safeLine(url))
		}
		return "the callback to " + safeLine(url)
	}
	return "no callback"
}

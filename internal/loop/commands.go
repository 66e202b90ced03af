package loop

import (
	"context"

	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

const (
	noCommands = "commands can't run in the background here: run it in the foreground"
	noStopping = "tasks can't be ended here"
)

// launch asks for a command to be a task of its own.
func (w *batch) launch(block int, o tool.Spawn, goesOn bool) {
	w.commands = append(w.commands, o.Command)
	switch {
	case !goesOn:
	case !w.TakesCommands:
		w.close(block, tool.Done{IsError: true, Text: noCommands})
	default:
		w.launched = append(w.launched, len(w.sent))
		w.sent = append(w.sent, w.Journal.Spawn([]Child{{
			Block: block, Description: valid(o.Description), Background: true, Command: o.Command,
		}}))
	}
}

// hearLaunched waits until it is known which commands are tasks now, which go on from then. A
// run that parks is over: if the stream breaks before the answers are there, nobody gives them
// again, and the commands would belong to nobody.
func (w *batch) hearLaunched(ctx context.Context) error {
	for _, i := range w.launched {
		reply, err := w.sent[i].Wait(ctx)
		if err != nil {
			return err
		}
		w.sent[i] = heard(reply)
	}
	w.launched = nil
	return nil
}

// heard is a request whose answer is known.
type heard Reply

// Wait gives the answer.
func (h heard) Wait(context.Context) (Reply, error) { return Reply(h), nil }

// drop ends the commands that nobody has taken: they were refused, or the attempt is
// over.
func (w *batch) drop() {
	for _, c := range w.commands {
		c.Drop()
	}
}

// stop asks for a task to be ended.
func (w *batch) stop(block int, task tree.TaskID) {
	if !w.TakesCommands {
		w.close(block, tool.Done{IsError: true, Text: noStopping})
		return
	}
	w.sent = append(w.sent, w.Journal.Stop(block, task))
}

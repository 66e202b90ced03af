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
		sent := &once{Pending: w.Journal.Spawn([]Child{{
			Block: block, Description: valid(o.Description), Background: true, Command: o.Command,
		}})}
		w.launched = append(w.launched, sent)
		w.sent = append(w.sent, sent)
	}
}

// hearLaunched waits until it is known which commands are tasks now, which go on from then. A
// run that parks is over: if the stream breaks before the answers are there, nobody gives them
// again, and the commands would belong to nobody.
func (w *batch) hearLaunched(ctx context.Context) error {
	for _, sent := range w.launched {
		if _, err := sent.Wait(ctx); err != nil {
			return err
		}
	}
	w.launched = nil
	return nil
}

// once is a request whose answer is looked at twice, and acted upon by whoever waits for it:
// the second look finds what the first has heard.
type once struct {
	Pending
	heard *Reply
}

// Wait gives the answer.
func (o *once) Wait(ctx context.Context) (Reply, error) {
	if o.heard != nil {
		return *o.heard, nil
	}
	reply, err := o.Pending.Wait(ctx)
	if err == nil {
		o.heard = &reply
	}
	return reply, err
}

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

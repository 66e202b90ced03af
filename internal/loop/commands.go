package loop

import (
	"context"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

const (
	noCommandsText = "commands can't run in the background here: run it in the foreground"
	noStopText     = "tasks can't be ended here"
)

// spawnCommand asks for a command to become a task of its own.
func (w *batch) spawnCommand(block int, o tool.Spawn, goesOn bool) {
	w.commands = append(w.commands, o.Command)
	switch {
	case !goesOn:
	case !w.TakesCommands:
		w.closeCall(block, tool.Done{IsError: true, Text: noCommandsText})
	default:
		sent := &cachedPending{Pending: w.Journal.Spawn([]Child{{
			Block: block, Description: excerpt.Valid(o.Description), Background: true, Command: o.Command,
		}})}
		w.launched = append(w.launched, sent)
		w.sent = append(w.sent, sent)
	}
}

// waitLaunched waits until it is known which commands have become tasks; they run from then on. A
// run must wait for that before it parks. If the stream broke between the park and the answers,
// the answers would be lost, and the commands would belong to nobody.
func (w *batch) waitLaunched(ctx context.Context) error {
	for _, sent := range w.launched {
		if _, err := sent.Wait(ctx); err != nil {
			return err
		}
	}
	w.launched = nil
	return nil
}

// cachedPending is a request whose answer is read twice. The first Wait acts on the answer; the
// second returns the same answer.
type cachedPending struct {
	Pending
	reply *Reply
}

// Wait returns the answer.
func (o *cachedPending) Wait(ctx context.Context) (Reply, error) {
	if o.reply != nil {
		return *o.reply, nil
	}
	reply, err := o.Pending.Wait(ctx)
	if err == nil {
		o.reply = &reply
	}
	return reply, err
}

// dropCommands ends the commands that nobody has taken, because they were refused or the attempt
// is over.
func (w *batch) dropCommands() {
	for _, c := range w.commands {
		c.Drop()
	}
}

// stopTask asks for a task to be ended.
func (w *batch) stopTask(block int, task tree.TaskID) {
	if !w.TakesCommands {
		w.closeCall(block, tool.Done{IsError: true, Text: noStopText})
		return
	}
	w.sent = append(w.sent, w.Journal.Stop(block, task))
}

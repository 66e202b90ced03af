package loop

import (
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
		w.sent = append(w.sent, w.Journal.Spawn([]Child{{
			Block: block, Description: valid(o.Description), Background: true, Command: o.Command,
		}}))
	}
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

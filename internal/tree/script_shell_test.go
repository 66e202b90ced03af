package tree

import (
	"strconv"
	"strings"
)

// launchedIn gives the blocks for which a repeated request has asked for commands.
func (s *script) launchedIn(words []string) []int {
	var blocks []int
	for _, w := range words {
		if n, ok := strings.CutPrefix(w, "launched="); ok {
			blocks = append(blocks, s.number(n))
		}
	}
	return blocks
}

// noteLaunched remembers the tokens of commands that have become tasks.
func (s *script) noteLaunched(cmd SpawnCalls, launched []Launch) {
	for _, l := range launched {
		for _, child := range cmd.Children {
			if child.Block != l.Block || s.tokens[l.Task] != nil {
				continue
			}
			token := Token{Epoch: l.Epoch, Nonce: child.Shell.Nonce}
			s.tokens[l.Task] = map[int64]Token{l.Epoch: token}
			s.streams[token] = 1
		}
	}
}

// aShell draws a command.
func (h *history) aShell() *Shell {
	shell := &Shell{Line: "run " + strconv.Itoa(h.rng.IntN(10)), Nonce: h.rng.Uint64(), ByUser: h.often(30)}
	if h.often(30) {
		shell.Timeout = h.seconds(20)
	}
	switch {
	case h.often(3):
		shell.Line = strings.Repeat("x", 101)
	case h.often(3):
		shell.Line = ""
	}
	return shell
}

// carries draws what the worker of a command says.
func (h *history) carries(f From) Command {
	switch {
	case h.often(5):
		return h.turn(f) // what only an agent's worker says
	case h.often(40):
		return Report{From: f, Output: strings.Repeat("out\n", h.rng.IntN(60))}
	case h.often(70):
		return EndShell{From: f, Output: strings.Repeat("o", h.rng.IntN(110))}
	}
	return EndShell{From: f, Reason: ReasonToolError, Detail: "exit code 3"}
}

// noteShells makes workers of commands that have become tasks.
func (h *history) noteShells(cmd SpawnCalls, launched []Launch) {
	for _, l := range launched {
		for _, child := range cmd.Children {
			if child.Block == l.Block && child.Shell != nil {
				token := Token{Epoch: l.Epoch, Nonce: child.Shell.Nonce}
				h.workers = append(h.workers, &worker{task: l.Task, token: token, attach: 1})
			}
		}
	}
}

func (h *history) backgroundCommands() Command { return BackgroundCommands{Task: h.aTask()} }

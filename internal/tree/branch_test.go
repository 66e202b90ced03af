package tree

import (
	"fmt"
	"slices"
	"strings"
)

// branch reads: branch TASK NAME N [apart] [again] [select] [older] ["text"]. An older message
// does not say whom it is on behalf of.
func (s *script) branch(words []string) Command {
	c := CreateBranch{Task: s.taskOrRoot(words[1]), Agent: s.agents["main"], Description: words[2]}
	task := s.task(words[1])
	if m := s.db.message(task, s.number(words[3])); m != nil {
		c.At = *m
	} else {
		c.At = Message{ID: MessageID{9}, Task: task, Ordinal: s.number(words[3])}
	}
	for _, w := range words[4:] {
		switch w {
		case "apart":
			c.Apart = true
		case "again":
			c.Again = true
		case "select":
			c.Select = true
		case "older":
			c.At.Source = ""
		case "nobody":
			c.Agent = nil
		default:
			c.Message = append(c.Message, Text{Text: w})
		}
	}
	return c
}

// imported makes a history of texts; one that begins with @ is a call with its
// result, with ! a call alone, and with ~ a summary of all that came before.
func imported(texts []string) []Message {
	var history []Message
	for _, text := range texts {
		m := Message{Role: RoleUser, Blocks: []Block{Text{Text: text}}}
		if n := len(history); n > 0 && history[n-1].Role == RoleUser {
			m.Role, m.Usage = RoleAssistant, Usage{Input: 7}
		}
		switch text[0] {
		case '@', '!':
			m.Role, m.Blocks = RoleAssistant, []Block{ToolUse{ProviderID: "c", Name: text[1:]}}
		case '~':
			m.Role, m.UpTo = RoleUser, len(history)
		}
		history = append(history, m)
		if text[0] == '@' {
			history = append(history, Message{Role: RoleTool, Blocks: []Block{ToolResult{ProviderID: "c", Text: "found " + text[1:]}}})
		}
	}
	return history
}

func (s *script) base(b Base) string {
	switch b.Kind {
	case BaseApart:
		return fmt.Sprintf("apart from message %d of %s", b.Message, s.names[b.Task])
	case BaseCall:
		return fmt.Sprintf("forked by call %d.%d of %s", b.Message, b.Block, s.names[b.Task])
	case BaseFork:
		return fmt.Sprintf("forked after message %d of %s", b.Message, s.names[b.Task])
	default:
		return fmt.Sprintf("going on from message %d of %s", b.Message, s.names[b.Task])
	}
}

// message gives a message of a task's own; nil if it has none of that ordinal.
func (db *database) message(task TaskID, ordinal int) *Message {
	for _, m := range db.messages[task] {
		if m.Ordinal == ordinal {
			return &m
		}
	}
	return nil
}

// base: what the task goes on from is older than the task, and is seen whole.
func (c *checker) base(t *Task) {
	b := t.Base
	if b.Kind == BaseNone {
		return
	}
	c.must(b.Kind != BaseFork && b.Kind != BaseCall || b.Task == t.Parent, "task %s is a fork of %s, its parent is %s", t.ID, b.Task, t.Parent)
	last := c.message(b.Task, b.Message)
	switch {
	case b.Kind == BaseCall:
		c.must(last != nil && b.Block < len(last.Blocks), "task %s is forked by a block that is not there", t.ID)
		_, calls := last.Blocks[b.Block].(ToolUse)
		c.must(calls, "task %s is forked by a block that calls nothing", t.ID)
	case b.Inherits() && last != nil:
		c.must(!last.MakesCalls(), "task %s goes on from calls without their results", t.ID)
	}
}

// head is the message before a task's first own one.
func (c *checker) head(t *Task) MessageID {
	if t.Base.Kind != BaseBranch || t.Base.Message == 0 {
		return MessageID{}
	}
	for base := t.Base.Task; ; base = c.tasks[base].Base.Task {
		if m := c.message(base, t.Base.Message); m != nil {
			return m.ID
		}
		if b := c.tasks[base].Base; !b.Inherits() || b.Kind != BaseBranch {
			return MessageID{}
		}
	}
}

func (c *checker) message(task TaskID, ordinal int) *Message {
	if m := c.database.message(task, ordinal); m != nil {
		return m
	}
	return nil
}

// lastWords is the ordinal of the last message in which the model has said something in a task's
// current run, or 0.
func (c *checker) lastWords(t *Task) int {
	for _, m := range slices.Backward(c.messages[t.ID]) {
		if m.Run == t.Run && m.Role == RoleAssistant && strings.TrimSpace(m.Text()) != "" {
			return m.Ordinal
		}
	}
	return 0
}

// branch draws a branch from any message of any task, now and then from one that
// is not there.
func (h *history) branch() Command {
	c := CreateBranch{
		Task: h.aTask(), Agent: boss, Description: "b", Apart: h.often(10), Again: h.often(30), Select: h.often(20),
	}
	if h.often(40) {
		c.Message = []Block{Text{Text: h.text()}}
	}
	if all := h.db.messages[c.Task]; len(all) > 0 && h.often(95) {
		c.At = oneOf(h, all)
	}
	return c
}

func (h *history) selects() Command { return SelectBranch{Task: h.aTask()} }

// sums draws a summary up to anywhere.
func (h *history) sums(f From) Command {
	t := h.db.tasks[f.Task]
	return Compact{From: f, UpTo: h.rng.IntN(t.NextOrdinal + 1), Summary: Message{
		Usage: h.usage(), Blocks: h.chance(95, []Block{Text{Text: "in short"}}),
	}}
}

// past draws what a session begins with.
func (h *history) past() []Message {
	if h.often(80) {
		return nil
	}
	texts := []string{"before", "@look", "seen", "more", "~in short", "and", "done"}
	return imported(slices.Clone(texts[:1+h.rng.IntN(len(texts))]))
}

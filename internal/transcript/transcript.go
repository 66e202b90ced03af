// Package transcript computes what a model sees from stored messages, which never change. A
// conversation may continue from another one (a fork, a branch), its older part may be
// summarised, and calls may not have results yet. The package is pure. Equal messages always
// give equal bytes, so that shared parts of conversations are equal for a provider's prompt
// cache.
//
// The package also reads and writes transcripts as JSON lines, in the format that agent
// frameworks use which run in one process.
package transcript

import (
	"fmt"

	"github.com/coppice-run/coppice/internal/tree"
)

// Link is one conversation of a chain. Each continues from the next one.
type Link struct {
	Task        tree.TaskID
	Description string
	Base        tree.Base      // the message of the next link that it continues from
	Messages    []tree.Message // its own messages, in order; of a base at least the visible ones
}

// Inherited returns the messages that precede those of the first link of the chain: all visible
// messages of the other links, and the note that tells a fork that it is one. Summaries do not
// shorten the result.
func Inherited(chain []Link) []tree.Message {
	if len(chain) < 2 || !chain[0].Base.Inherits() {
		return nil
	}
	own, base := chain[0], chain[0].Base
	before := append(Inherited(chain[1:]), chain[1].Messages...)
	var seen []tree.Message
	for i := range before {
		m := before[i]
		switch {
		case m.Ordinal > base.Message:
		case m.Ordinal == base.Message && base.Kind == tree.BaseCall:
			alone, result := withSingleCall(m, base.Block)
			result.Text = forkNote(own.Description)
			seen = append(seen, alone, forkMessage(own, tree.RoleTool, result))
		default:
			seen = append(seen, m)
		}
	}
	if base.Kind == tree.BaseFork {
		seen = append(seen, forkMessage(own, tree.RoleUser, tree.Text{Text: forkNote(own.Description)}))
	}
	return seen
}

// withSingleCall returns an assistant message with all calls but one removed, and an empty
// result for that call.
func withSingleCall(m tree.Message, block int) (tree.Message, tree.ToolResult) {
	var result tree.ToolResult
	blocks := make([]tree.Block, 0, len(m.Blocks))
	for i, b := range m.Blocks {
		use, calls := b.(tree.ToolUse)
		if calls && i != block {
			continue
		}
		if calls {
			result = tree.ToolResult{Block: len(blocks), ProviderID: use.ProviderID}
		}
		blocks = append(blocks, b)
	}
	m.Blocks = blocks
	return m, result
}

// forkMessage returns the message that tells a fork what it is. It is not stored. Its id is the
// id of the task, and its ordinal is one that the fork leaves unused.
func forkMessage(of Link, role tree.Role, block tree.Block) tree.Message {
	m := tree.Message{
		ID: tree.MessageID(of.Task), Task: of.Task, Ordinal: of.Base.Message + 1, Role: role, Blocks: []tree.Block{block},
	}
	if len(of.Messages) > 0 {
		m.CreatedAt = of.Messages[0].CreatedAt
	}
	return m
}

// forkNote must never change, because providers cache it.
func forkNote(description string) string {
	about := ""
	if description != "" {
		about = fmt.Sprintf(" (%s)", description)
	}
	return "You are a sub-agent that continues from here. What came before is the conversation of the agent " +
		"that started you; it goes on without you, and other calls of its last message are not yours. " +
		"Your task" + about + " is in the next message. Do that alone, and end with the answer: " +
		"it is all that the agent will see of your work."
}

// Visible returns what a model sees of a conversation: the last summary instead of the messages
// that it replaces. A result whose call was summarised is dropped as well.
func Visible(messages []tree.Message) []tree.Message {
	last := -1
	for i := range messages {
		if messages[i].UpTo > 0 {
			last = i
		}
	}
	if last < 0 {
		return messages
	}
	seen := []tree.Message{messages[last]}
	for i := range messages {
		m := &messages[i]
		orphan := len(seen) == 1 && m.Role == tree.RoleTool
		if m.Ordinal > messages[last].UpTo && i != last && !orphan {
			seen = append(seen, *m)
		}
	}
	return seen
}

// Conversation returns what the model of the first link sees. The result must not be changed.
func Conversation(chain []Link) []tree.Message {
	if len(chain) == 0 {
		return nil
	}
	own := chain[0].Messages
	if inherited := Inherited(chain); len(inherited) > 0 {
		own = append(inherited, own...)
	}
	return Visible(own)
}

// Calls returns the calls of an assistant message.
func Calls(m *tree.Message) []tree.Call {
	var calls []tree.Call
	for i, b := range m.Blocks {
		if use, ok := b.(tree.ToolUse); ok {
			calls = append(calls, tree.Call{
				Ref: tree.CallRef{Message: m.Ordinal, Block: i}, Tool: use.Name, State: tree.CallOpen,
			})
		}
	}
	return calls
}

// Unanswered returns the last message if its calls have no results, otherwise nil.
func Unanswered(messages []tree.Message) *tree.Message {
	if len(messages) == 0 {
		return nil
	}
	last := &messages[len(messages)-1]
	if last.Role != tree.RoleAssistant || len(Calls(last)) == 0 {
		return nil
	}
	return last
}

// ResultBlocks returns the content of a tool message: one block for each call of the assistant
// message, in the order of the calls.
func ResultBlocks(asked *tree.Message, results map[int]tree.ToolResult) []tree.Block {
	var blocks []tree.Block
	for i, b := range asked.Blocks {
		if use, ok := b.(tree.ToolUse); ok {
			r := results[i]
			r.Block, r.ProviderID = i, use.ProviderID
			blocks = append(blocks, r)
		}
	}
	return blocks
}

// Package transcript says what a model sees: it is computed from stored messages,
// which never change. A conversation may go on from another's (a fork, a branch),
// the older part of one may be summed up, and calls may be without a result yet.
// It is pure, and the same messages always give the same bytes, so that what
// several models see alike is alike to a provider's prompt cache.
//
// The package also reads and writes transcripts as lines of JSON, in the shape
// that agents which run inside one process keep them in.
package transcript

import (
	"fmt"

	"github.com/coppice-run/coppice/internal/tree"
)

// Link is one conversation of a chain, in which each goes on from the next.
type Link struct {
	Task        tree.TaskID
	Description string
	Base        tree.Base      // what it goes on from: a message of the next link
	Messages    []tree.Message // its own, in their order; of a base at least those that are seen
}

// Inherited gives the messages that come before those of the chain's first link,
// however long ago: what it sees of the other links, and what tells a fork that it
// is one. Summaries do not shorten it.
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

// withSingleCall gives an assistant message without any call but one, and that call's
// result, which has no text yet.
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

// forkMessage is the message that tells a fork what it is. It is stored nowhere: its id
// is that of the task, and its ordinal the one that the fork has left free.
func forkMessage(of Link, role tree.Role, block tree.Block) tree.Message {
	m := tree.Message{
		ID: tree.MessageID(of.Task), Task: of.Task, Ordinal: of.Base.Message + 1, Role: role, Blocks: []tree.Block{block},
	}
	if len(of.Messages) > 0 {
		m.CreatedAt = of.Messages[0].CreatedAt
	}
	return m
}

// forkNote never changes: it is part of what providers cache.
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

// Visible gives what a model sees of a conversation: instead of what was summed up,
// the last summary. A result whose call was summed up goes with it.
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

// Conversation gives what the model of the chain's first link sees. Nobody may change it.
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

// Calls gives the calls that an assistant message opens.
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

// Unanswered gives the last message if its calls are without a result, else nil.
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

// ResultBlocks puts a tool message together: one block for each call of the message
// that asked, in the order of the calls.
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

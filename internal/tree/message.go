package tree

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"
)

// Role is the author of a message.
type Role uint8

// The roles of a message.
const (
	RoleUnspecified Role = iota
	// RoleUser is a person, the parent that gave the task, or news of a background child.
	RoleUser
	// RoleAssistant is the model.
	RoleAssistant
	// RoleTool carries the results of the calls of the assistant message before it: one block per
	// call, in the order of the calls.
	RoleTool
)

// Message is one link of a task's append-only transcript. It is immutable.
type Message struct {
	ID      MessageID
	Task    TaskID
	Parent  MessageID // the message before it; zero for the first
	Ordinal int       // its place in the transcript, counted from 1
	Run     int       // the run that added it
	Role    Role
	Blocks  []Block

	// News is set on a user message that reports the end of a background child. Its text is made
	// from the child's outcome when the message is read.
	News ChildRun

	// UpTo is set on a summary: a model sees it in place of all messages up to this ordinal.
	UpTo int

	// Source is the external source that the run acted for when the message was added; empty: none,
	// or the message is of a release that did not record it.
	Source string

	// Of assistant messages. In a summary, of the model's answer that it was made from.
	Model string
	Usage Usage
	Stop  StopReason

	CreatedAt time.Time
}

// Block is a part of a message: [Text], [Thinking], [ToolUse], [ToolResult] or
// [Attachment].
type Block interface{ isBlock() }

// Text is plain text or Markdown.
type Text struct{ Text string }

// Blank reports whether a text has no visible character. Such text is not shown to a model, and
// providers refuse a conversation of nothing else.
func Blank(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf) })
}

// Thinking is a model's reasoning. Signature is the provider's; it is sent back unchanged and means
// nothing to anyone else.
type Thinking struct {
	Text      string
	Signature string
}

// ToolUse opens a tool call. The identity of the call is (task, message, index of this block).
// ProviderID is the provider's id, which may repeat.
type ToolUse struct {
	ProviderID string
	Name       string
	Input      json.RawMessage
}

// ToolResult is the result of the call that block number Block of the previous assistant message
// has opened.
type ToolResult struct {
	Block      int
	ProviderID string
	Text       string
	IsError    bool
}

// Attachment is an image or a document. Models that cannot read it get a text that says there is
// one.
type Attachment struct {
	Kind      AttachmentKind
	MediaType string
	Name      string
	Data      []byte // or
	URL       string
}

// AttachmentKind says what an attachment is.
type AttachmentKind uint8

// The kinds of attachments.
const (
	AttachmentUnspecified AttachmentKind = iota
	AttachmentImage
	AttachmentDocument
)

func (Attachment) isBlock() {}
func (Text) isBlock()       {}
func (Thinking) isBlock()   {}
func (ToolUse) isBlock()    {}
func (ToolResult) isBlock() {}

// hasText reports whether the message has visible text.
func (m *Message) hasText() bool {
	for _, b := range m.Blocks {
		if text, ok := b.(Text); ok && strings.TrimSpace(text.Text) != "" {
			return true
		}
	}
	return false
}

// Text joins the text blocks of the message.
func (m *Message) Text() string {
	var text string
	for _, b := range m.Blocks {
		if t, ok := b.(Text); ok {
			if text != "" {
				text += "\n"
			}
			text += t.Text
		}
	}
	return text
}

// StopReason says why a model stopped.
type StopReason uint8

// Why a model stopped.
const (
	StopUnspecified StopReason = iota
	StopEndTurn                // its answer was complete
	StopToolUse                // it waits for the results of its calls
	StopMaxTokens              // it reached the limit of its output
	StopRefusal                // it declined
)

// Usage counts tokens as providers bill them. Input excludes what was read from or written to the
// provider's cache.
//
// Cost is an estimate, in millionths of a US dollar, of the cost of Priced of the tokens; the
// prices of the others are unknown. It is made once, when the tokens are recorded, so a sum of
// usages has the sum of their costs.
type Usage struct {
	Input      int64
	Output     int64
	CacheRead  int64
	CacheWrite int64

	Cost   int64
	Priced int64
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input:      u.Input + v.Input,
		Output:     u.Output + v.Output,
		CacheRead:  u.CacheRead + v.CacheRead,
		CacheWrite: u.CacheWrite + v.CacheWrite,
		Cost:       u.Cost + v.Cost,
		Priced:     u.Priced + v.Priced,
	}
}

// Total is the sum of all kinds of tokens.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// AppendLine adds a line at the end of the message's text, if it fits into parts of partBytes.
func (m *Message) AppendLine(line string, partBytes int) {
	if line == "" {
		return
	}
	if last := len(m.Blocks) - 1; last >= 0 {
		text, ok := m.Blocks[last].(Text)
		if longer := text.Text + "\n\n" + line; ok && len(longer) <= partBytes {
			m.Blocks = append(m.Blocks[:last:last], Text{Text: longer})
			return
		}
	}
	if n := len(m.Blocks); n < MaxBlocks && len(line) <= partBytes {
		m.Blocks = append(m.Blocks[:n:n], Text{Text: line})
	}
}

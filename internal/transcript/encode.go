package transcript

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// The file format is JSON lines: one object per message, with the id of the message before it.
// Agent frameworks that run in one process store transcripts like this, with the message
// content in the form of one provider's API.

// line is one line. Other fields are ignored.
type line struct {
	UUID       string       `json:"uuid"`
	ParentUUID *string      `json:"parentUuid"`
	Sidechain  bool         `json:"isSidechain"`
	AgentID    string       `json:"agentId,omitempty"`
	Timestamp  time.Time    `json:"timestamp"`
	Type       string       `json:"type"`
	Summary    bool         `json:"isCompactSummary,omitempty"`
	SumsUpTo   string       `json:"sumsUpTo,omitempty"` // of a summary: the last message that it replaces
	Message    *messageBody `json:"message,omitempty"`
}

// messageBody is the content and the metadata of a message.
type messageBody struct {
	ID      string          `json:"id,omitempty"`
	Role    string          `json:"role"`
	Model   string          `json:"model,omitempty"`
	Content json.RawMessage `json:"content"`
	Stop    string          `json:"stop_reason,omitempty"`
	Usage   *usage          `json:"usage,omitempty"`
}

type usage struct {
	Input      int64 `json:"input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	Output     int64 `json:"output_tokens"`
}

// block is one part of the content of a message.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Thinking  string          `json:"thinking,omitempty"`
	Signature string          `json:"signature,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	CallID    string          `json:"tool_use_id,omitempty"`
	Content   json.RawMessage `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Title     string          `json:"title,omitempty"`
	Source    *source         `json:"source,omitempty"`
}

// source is the data of an attachment, or where it is.
type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

// The types of lines and blocks.
const (
	typeUser      = "user"
	typeAssistant = "assistant"
	typeText      = "text"
	typeThinking  = "thinking"
	typeUse       = "tool_use"
	typeResult    = "tool_result"
	typeImage     = "image"
	typeDocument  = "document"
	typeBase64    = "base64"
	typeURL       = "url"
)

var stopNames = [...]string{
	tree.StopEndTurn: "end_turn", tree.StopToolUse: "tool_use", tree.StopMaxTokens: "max_tokens", tree.StopRefusal: "refusal",
}

// Origin identifies the task of a transcript.
type Origin struct {
	Sidechain bool   // it belongs to a sub-agent
	Agent     string // task id of the sub-agent
}

// Encode writes a whole conversation, including inherited messages. Equal messages give equal
// bytes. Decoding and encoding the result gives the same bytes again.
func Encode(messages []tree.Message, of Origin) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	w := &writer{usedIDs: map[string]bool{}}
	ids := map[int]string{}
	var parent *string
	for i := range messages {
		m := &messages[i]
		id := m.ID.String()
		content, err := w.content(m)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", m.Ordinal, err)
		}
		l := line{
			UUID: id, ParentUUID: parent, Sidechain: of.Sidechain, AgentID: of.Agent, Timestamp: m.CreatedAt.UTC(),
			Type: typeUser, Summary: m.UpTo > 0, SumsUpTo: ids[m.UpTo],
			Message: &messageBody{Role: typeUser, Model: m.Model, Content: content, Stop: stopNames[m.Stop]},
		}
		if m.Role == tree.RoleAssistant {
			l.Type, l.Message.Role = typeAssistant, typeAssistant
		}
		if u := m.Usage; u != (tree.Usage{}) {
			l.Message.Usage = &usage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}
		}
		if err := encoder.Encode(l); err != nil {
			return nil, fmt.Errorf("message %d: %w", m.Ordinal, err)
		}
		parent, ids[m.Ordinal] = &id, id
	}
	return out.Bytes(), nil
}

// writer makes call ids unique, because those of providers repeat.
type writer struct {
	usedIDs map[string]bool
	calls   map[int]string // of the last assistant message, by block
}

func (w *writer) content(m *tree.Message) (json.RawMessage, error) {
	if m.Role != tree.RoleTool {
		w.calls = map[int]string{}
	}
	blocks := make([]block, 0, len(m.Blocks))
	for i, b := range m.Blocks {
		switch b := b.(type) {
		case tree.Text:
			blocks = append(blocks, block{Type: typeText, Text: b.Text})
		case tree.Thinking:
			blocks = append(blocks, block{Type: typeThinking, Thinking: b.Text, Signature: b.Signature})
		case tree.ToolUse:
			blocks = append(blocks, block{Type: typeUse, ID: w.callID(m, i, b.ProviderID), Name: b.Name, Input: inputJSON(b.Input)})
		case tree.ToolResult:
			text, err := marshalPlain(b.Text)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, block{Type: typeResult, CallID: w.calls[b.Block], Content: text, IsError: b.IsError})
		case tree.Attachment:
			blocks = append(blocks, encodeAttachment(b))
		}
	}
	return marshalPlain(blocks)
}

// callID returns the id of a call in the file.
func (w *writer) callID(m *tree.Message, i int, id string) string {
	for n := 0; id == "" || w.usedIDs[id]; n++ {
		id = fmt.Sprintf("call_%d_%d", m.Ordinal, i)
		if n > 0 {
			id += strings.Repeat("_", n)
		}
	}
	w.usedIDs[id], w.calls[i] = true, id
	return id
}

// inputJSON returns the input that a model wrote as JSON. Invalid JSON becomes a JSON string.
func inputJSON(written json.RawMessage) json.RawMessage {
	if len(written) == 0 {
		return json.RawMessage("{}")
	}
	var compact bytes.Buffer
	if json.Compact(&compact, written) == nil {
		return compact.Bytes()
	}
	text, err := marshalPlain(string(written))
	if err != nil {
		return json.RawMessage("{}")
	}
	return text
}

func encodeAttachment(a tree.Attachment) block {
	b := block{Type: typeImage, Title: a.Name, Source: &source{Type: typeBase64, MediaType: a.MediaType, Data: a.Data}}
	if a.Kind == tree.AttachmentDocument {
		b.Type = typeDocument
	}
	if a.URL != "" {
		b.Source = &source{Type: typeURL, MediaType: a.MediaType, URL: a.URL}
	}
	return b
}

// marshalPlain encodes JSON without the escapes for HTML.
func marshalPlain(v any) (json.RawMessage, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

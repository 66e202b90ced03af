// Package conversation converts a transcript to the form that providers require: user and
// assistant turns alternate, tool results come before other content, and call ids are unique.
// It is pure. It depends only on earlier messages: appending to a transcript does not change
// the converted form of what was there. A provider's prompt cache needs this.
package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/coppice-run/coppice/internal/tree"
)

// OpenAISignaturePrefix starts the signature of reasoning that only OpenAI can read.
const OpenAISignaturePrefix = "openai:"

// Turn is the consecutive content of one role.
type Turn struct {
	// Role is RoleUser or RoleAssistant. Tool results belong to the user's turn.
	Role   tree.Role
	Blocks []tree.Block
}

// Shape converts a transcript to turns.
//
//   - Consecutive messages of one role become one turn. Text without a visible character is
//     omitted, and so is a message that becomes empty.
//   - Calls and their results get a unique id of letters, digits, _ and -. It is the provider's
//     id where that qualifies.
//   - The name of a called tool, which a model may have invented, uses the same characters.
//   - The input of a call is always a JSON object. Other input is kept as text under the key
//     "malformed".
func Shape(messages []tree.Message) []Turn {
	s := shaper{usedIDs: map[string]bool{}}
	for i := range messages {
		s.add(i, &messages[i])
	}
	return s.turns
}

// Select returns the turns with those blocks of each assistant turn that a provider is sent. A turn
// without any is left out, and the user turns around it become one.
func Select(turns []Turn, sent func([]tree.Block) []tree.Block) []Turn {
	var out []Turn
	for _, t := range turns {
		if t.Role == tree.RoleAssistant {
			t.Blocks = sent(t.Blocks)
		}
		switch n := len(out); {
		case len(t.Blocks) == 0:
		case n > 0 && out[n-1].Role == t.Role:
			out[n-1].Blocks = slices.Concat(out[n-1].Blocks, t.Blocks)
		default:
			out = append(out, t)
		}
	}
	return out
}

type shaper struct {
	turns   []Turn
	usedIDs map[string]bool
	calls   map[int]string // call ids of the last assistant message, by block
}

func (s *shaper) add(place int, m *tree.Message) {
	role := tree.RoleUser
	if m.Role == tree.RoleAssistant {
		role = tree.RoleAssistant
		s.calls = map[int]string{}
	}
	for i, b := range m.Blocks {
		switch b := b.(type) {
		case tree.Text:
			if !tree.Blank(b.Text) {
				s.put(role, b)
			}
		case tree.Thinking:
			s.put(role, b)
		case tree.ToolUse:
			b.ProviderID = s.id(b.ProviderID, place, i)
			b.Name = validName(b.Name)
			b.Input = jsonObject(b.Input)
			s.calls[i] = b.ProviderID
			s.put(role, b)
		case tree.ToolResult:
			b.ProviderID = s.calls[b.Block]
			s.put(role, b)
		case tree.Attachment:
			if role == tree.RoleUser { // models produce no attachments
				s.put(role, b)
			}
		}
	}
}

func (s *shaper) put(role tree.Role, b tree.Block) {
	if n := len(s.turns); n == 0 || s.turns[n-1].Role != role {
		s.turns = append(s.turns, Turn{Role: role})
	}
	last := &s.turns[len(s.turns)-1]
	last.Blocks = append(last.Blocks, b)
}

// validID matches the call ids that every provider accepts.
var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// id returns a unique id for a call. It depends only on the position of the call and on what
// came before it.
func (s *shaper) id(wanted string, place, block int) string {
	id := wanted
	for n := 0; !validID.MatchString(id) || s.usedIDs[id]; n++ {
		id = fmt.Sprintf("call_%d_%d_%d", place, block, n)
	}
	s.usedIDs[id] = true
	return id
}

// invalidNameChar matches the characters that a provider may reject in a tool name.
var invalidNameChar = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// maxNameLength is the length of a tool name that every provider accepts.
const maxNameLength = 64

// validName returns a tool name in a form that every provider accepts. Names of registered
// tools already have this form.
func validName(name string) string {
	if name == "" {
		return "unknown"
	}
	plain := invalidNameChar.ReplaceAllLiteralString(name, "_")
	return plain[:min(len(plain), maxNameLength)]
}

// jsonObject returns the input of a call as a JSON object.
func jsonObject(input json.RawMessage) json.RawMessage {
	trimmed := bytes.TrimSpace(input)
	switch {
	case len(trimmed) == 0:
		return json.RawMessage("{}")
	case trimmed[0] == '{' && json.Valid(trimmed):
		return trimmed
	}
	kept, err := json.Marshal(map[string]string{"malformed": string(input)})
	if err != nil {
		panic("a text has no JSON form: " + err.Error()) // a string always has a JSON form
	}
	return kept
}

// Package conversation shapes a transcript as providers demand it: two sides that
// take turns, results before other words, ids that occur once. It is pure, and it
// looks only backwards: what is added to a transcript does not change the shape of
// what was there, which is what a provider's prompt cache needs.
package conversation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/coppice-run/coppice/internal/tree"
)

// OpenAISignaturePrefix begins the signature of reasoning that only OpenAI can read.
const OpenAISignaturePrefix = "openai:"

// Turn is what one side says before the other one speaks.
type Turn struct {
	// Role is RoleUser or RoleAssistant. The results of tools belong to the user.
	Role   tree.Role
	Blocks []tree.Block
}

// Shape makes turns of a transcript.
//
// Messages of one side that follow each other become one turn. Text without a
// visible character is left out, and so is a message of which nothing stays. Calls
// and their results carry an id that is no other call's, made of letters, digits,
// _ and -: the provider's own where it is like that. The name of a called tool, which a
// model may have invented, is made of the same. The input of a call is always a JSON
// object; what was none is kept in one as text, under the key "malformed".
func Shape(messages []tree.Message) []Turn {
	s := shaper{usedIDs: map[string]bool{}}
	for i := range messages {
		s.add(i, &messages[i])
	}
	return s.turns
}

type shaper struct {
	turns   []Turn
	usedIDs map[string]bool
	calls   map[int]string // the ids of the calls of the last assistant message, by block
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
			if role == tree.RoleUser { // a model shows none
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

// validID is what every provider takes for the id of a call.
var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// id gives a call an id of its own. It depends on where the call stands and on
// what came before it.
func (s *shaper) id(wanted string, place, block int) string {
	id := wanted
	for n := 0; !validID.MatchString(id) || s.usedIDs[id]; n++ {
		id = fmt.Sprintf("call_%d_%d_%d", place, block, n)
	}
	s.usedIDs[id] = true
	return id
}

// invalidNameChar is what a provider may not take in the name of a tool.
var invalidNameChar = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// maxNameLength is how long every provider lets the name of a tool be.
const maxNameLength = 64

// validName gives the name of a tool in a form that every provider takes. What tools
// are called is like that already.
func validName(name string) string {
	if name == "" {
		return "unknown"
	}
	plain := invalidNameChar.ReplaceAllLiteralString(name, "_")
	return plain[:min(len(plain), maxNameLength)]
}

// jsonObject gives the input of a call as a JSON object.
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
		panic("a text has no JSON form: " + err.Error()) // there is no such text
	}
	return kept
}

package fakellm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// requestReader parses a conversation. It rejects what the real servers reject: a call without
// a result, a result without a call, a duplicate id, an invalid tool name.
type requestReader struct {
	req  *model.Request
	seen map[string]bool
	open map[string]int // calls without a result, by id: their blocks
}

func newRequestReader(name string) *requestReader {
	return &requestReader{req: &model.Request{Model: name}, seen: map[string]bool{}, open: map[string]int{}}
}

var (
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// add adds a block of a message. Results and other content become separate messages.
func (r *requestReader) add(role tree.Role, b tree.Block) error {
	switch b := b.(type) {
	case tree.Text:
		if strings.TrimSpace(b.Text) == "" {
			return errors.New("text content blocks must contain non-whitespace text")
		}
		if role == tree.RoleUser && len(r.open) > 0 {
			return fmt.Errorf("%d calls have no result", len(r.open))
		}
	case tree.ToolUse:
		switch {
		case role != tree.RoleAssistant:
			return errors.New("only an assistant calls tools")
		case !callID.MatchString(b.ProviderID) || r.seen[b.ProviderID]:
			return fmt.Errorf("the id %q of a call is wrong, or occurs twice", b.ProviderID)
		case !toolName.MatchString(b.Name):
			return fmt.Errorf("the name %q of a call does not match %s", b.Name, toolName)
		case !json.Valid(b.Input) || bytes.TrimSpace(b.Input)[0] != '{':
			return fmt.Errorf("the input of %s is no object", b.ProviderID)
		}
		r.seen[b.ProviderID] = true
		r.open[b.ProviderID] = r.next(role)
	}
	r.put(role, b)
	if text, ok := b.(tree.Text); ok && role == tree.RoleUser {
		r.req.Messages[len(r.req.Messages)-1].News = newsIn(text.Text)
	}
	return nil
}

// newsIn returns the child whose end a text reports, or zero. The APIs have no field for that.
func newsIn(text string) tree.ChildRun {
	var told struct {
		TaskID  tree.TaskID `json:"task_id"`
		Message string      `json:"message"`
	}
	if json.Unmarshal([]byte(text), &told) != nil || told.Message == "" {
		return tree.ChildRun{}
	}
	return tree.ChildRun{Task: told.TaskID}
}

// result adds the result of a call.
func (r *requestReader) result(id, text string, isError bool) error {
	block, ok := r.open[id]
	if !ok {
		return fmt.Errorf("a result for %q, which is no open call", id)
	}
	delete(r.open, id)
	r.put(tree.RoleTool, tree.ToolResult{Block: block, ProviderID: id, Text: text, IsError: isError})
	return nil
}

// next returns the index of the next block in a message of a role.
func (r *requestReader) next(role tree.Role) int {
	if n := len(r.req.Messages); n > 0 && r.req.Messages[n-1].Role == role {
		return len(r.req.Messages[n-1].Blocks)
	}
	return 0
}

// put adds a block. Each user text becomes a message, as before the texts were merged for the
// API.
func (r *requestReader) put(role tree.Role, b tree.Block) {
	n := len(r.req.Messages)
	if n == 0 || r.req.Messages[n-1].Role != role || role == tree.RoleUser {
		r.req.Messages = append(r.req.Messages, tree.Message{Role: role})
		n++
	}
	r.req.Messages[n-1].Blocks = append(r.req.Messages[n-1].Blocks, b)
}

// end returns the request.
func (r *requestReader) end() (*model.Request, error) {
	switch n := len(r.req.Messages); {
	case n == 0 || r.req.Messages[0].Role != tree.RoleUser:
		return nil, errors.New("a conversation begins with a user")
	case r.req.Messages[n-1].Role == tree.RoleAssistant:
		return nil, errors.New("a conversation ends with a user or the results of tools")
	case len(r.open) > 0:
		return nil, fmt.Errorf("%d calls have no result", len(r.open))
	}
	return r.req, nil
}

// content is a text, or a list of blocks.
type content []block

// block has the fields of all types of blocks.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   content         `json:"content"`
	IsError   bool            `json:"is_error"`
	Cache     *struct{}       `json:"cache_control"`
}

// UnmarshalJSON reads either form.
func (c *content) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*c = nil
		if text != "" {
			*c = content{{Type: "text", Text: text}}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]block)(c))
}

func (c content) text() string {
	var texts []string
	for _, b := range c {
		if b.Type == "image_url" || b.Type == "file" {
			b.Text = "[" + b.Type + "]"
		}
		texts = append(texts, b.Text)
	}
	return strings.Join(texts, "\n")
}

// tool adds a tool. Its schema must be a JSON object.
func (r *requestReader) tool(name, description string, schema json.RawMessage) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(schema, &object); err != nil {
		return fmt.Errorf("the schema of %s: %w", name, err)
	}
	r.req.Tools = append(r.req.Tools, model.ToolSpec{Name: name, Description: description, Schema: schema})
	return nil
}

package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// messagesRequest is a request of the Messages API.
type messagesRequest struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	Stream    bool   `json:"stream"`
	Thinking  struct {
		Budget int `json:"budget_tokens"`
	} `json:"thinking"`
	System content `json:"system"`
	Tools  []struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		InputSchema json.RawMessage `json:"input_schema"`
		Cache       *struct{}       `json:"cache_control"`
	} `json:"tools"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
}

// maxMarks is the maximum number of cache marks.
const maxMarks = 4

func (messages) read(body []byte) (*model.Request, error) {
	var in messagesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.Model == "" || in.MaxTokens < 1 || !in.Stream {
		return nil, errors.New("model, max_tokens and stream are required")
	}
	if in.Thinking.Budget >= in.MaxTokens {
		return nil, errors.New("max_tokens must be greater than thinking.budget_tokens")
	}
	if n := in.marks(); n > maxMarks {
		return nil, fmt.Errorf("%d blocks have cache_control, %d may", n, maxMarks)
	}
	r := newRequestReader(in.Model)
	r.req.System = in.System.text()
	for _, t := range in.Tools {
		if err := r.tool(t.Name, t.Description, t.InputSchema); err != nil {
			return nil, err
		}
	}
	last := ""
	for i, m := range in.Messages {
		if m.Role == last || len(m.Content) == 0 {
			return nil, fmt.Errorf("message %d: the sides take turns, and say something", i)
		}
		last = m.Role
		if kind := m.Content[len(m.Content)-1].Type; kind == "thinking" || kind == "redacted_thinking" {
			return nil, fmt.Errorf("message %d: the last block cannot be %s", i, kind)
		}
		for _, b := range m.Content {
			if err := r.block(m.Role, b); err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
		}
	}
	return r.end()
}

// marks counts the cache marks.
func (in *messagesRequest) marks() int {
	n := 0
	count := func(cache *struct{}) {
		if cache != nil {
			n++
		}
	}
	for _, t := range in.Tools {
		count(t.Cache)
	}
	for _, b := range in.System {
		count(b.Cache)
	}
	for _, m := range in.Messages {
		for _, b := range m.Content {
			count(b.Cache)
		}
	}
	return n
}

// block adds a block in Anthropic's format.
func (r *requestReader) block(side string, b block) error {
	role := tree.RoleUser
	if side == "assistant" {
		role = tree.RoleAssistant
	}
	switch b.Type {
	case "text":
		return r.add(role, tree.Text{Text: b.Text})
	case "thinking", "redacted_thinking":
		if b.Signature+b.Data == "" {
			return errors.New("reasoning needs its signature")
		}
		return r.add(role, tree.Thinking{Text: b.Thinking, Signature: b.Signature + b.Data})
	case "tool_use":
		return r.add(role, tree.ToolUse{ProviderID: b.ID, Name: b.Name, Input: b.Input})
	case "image", "document":
		return r.add(role, tree.Text{Text: "[" + b.Type + "]"})
	case "tool_result":
		return r.result(b.ToolUseID, b.Content.text(), b.IsError)
	}
	return fmt.Errorf("a block of type %q", b.Type)
}

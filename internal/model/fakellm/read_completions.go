package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// completionsRequest is a request of the chat completions API.
type completionsRequest struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Tools  []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Messages []completionsMessage `json:"messages"`
}

type completionsMessage struct {
	Role      string  `json:"role"`
	Content   content `json:"content"`
	CallID    string  `json:"tool_call_id"`
	ToolCalls []struct {
		ID       string `json:"id"`
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (completions) read(body []byte) (*model.Request, error) {
	var in completionsRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.Model == "" || !in.Stream {
		return nil, errors.New("model and stream are required")
	}
	r := newRequestReader(in.Model)
	for _, t := range in.Tools {
		if err := r.tool(t.Function.Name, t.Function.Description, t.Function.Parameters); err != nil {
			return nil, err
		}
	}
	for i := range in.Messages {
		if err := r.message(&in.Messages[i]); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return r.end()
}

// errorPrefix starts the text of an error result, because the API has no field for it.
const errorPrefix = "Error: "

// message adds a message in OpenAI's format.
func (r *requestReader) message(m *completionsMessage) error {
	text := m.Content.text()
	switch m.Role {
	case "system":
		r.req.System = text
		return nil
	case "user":
		return r.user(text)
	case "tool":
		text, isError := strings.CutPrefix(text, errorPrefix)
		return r.result(m.CallID, text, isError)
	case "assistant":
		if text != "" {
			if err := r.add(tree.RoleAssistant, tree.Text{Text: text}); err != nil {
				return err
			}
		}
		for _, c := range m.ToolCalls {
			use := tree.ToolUse{ProviderID: c.ID, Name: c.Function.Name, Input: json.RawMessage(c.Function.Arguments)}
			if err := r.add(tree.RoleAssistant, use); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the role %q", m.Role)
}

// user adds user content. News of children become separate messages again.
func (r *requestReader) user(text string) error {
	parts := strings.Split(text, "\n\n")
	for begin, i := 0, 0; i < len(parts); i++ {
		last := i == len(parts)-1
		if news := !newsIn(parts[i]).Task.IsZero(); !news && !last && newsIn(parts[i+1]).Task.IsZero() {
			continue // the text continues
		}
		if err := r.add(tree.RoleUser, tree.Text{Text: strings.Join(parts[begin:i+1], "\n\n")}); err != nil {
			return err
		}
		begin = i + 1
	}
	return nil
}

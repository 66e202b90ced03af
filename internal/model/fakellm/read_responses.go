package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// responsesRequest is a request of the Responses API.
type responsesRequest struct {
	Model        string `json:"model"`
	Stream       bool   `json:"stream"`
	Store        *bool  `json:"store"`
	Instructions string `json:"instructions"`
	Tools        []struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	} `json:"tools"`
	Input []responsesItem `json:"input"`
}

// responsesItem has the fields of all types of items.
type responsesItem struct {
	Type      string  `json:"type"`
	Role      string  `json:"role"`
	Content   content `json:"content"`
	ID        string  `json:"id"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Arguments string  `json:"arguments"`
	Output    string  `json:"output"`
	Encrypted string  `json:"encrypted_content"`
	Summary   *[]struct {
		Text string `json:"text"`
	} `json:"summary"`
}

func (responses) read(body []byte) (*model.Request, error) {
	var in responsesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.Model == "" || !in.Stream {
		return nil, errors.New("model and stream are required")
	}
	r := newRequestReader(in.Model)
	r.req.System = in.Instructions
	for _, t := range in.Tools {
		if t.Type != "function" || t.Strict == nil || *t.Strict {
			return nil, fmt.Errorf("the schema of %s is not a strict one", t.Name) // strict is the default
		}
		if err := r.tool(t.Name, t.Description, t.Parameters); err != nil {
			return nil, err
		}
	}
	for i := range in.Input {
		if err := r.item(in.Input, i); err != nil {
			return nil, fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	return r.end()
}

// item adds an item.
func (r *requestReader) item(all []responsesItem, i int) error {
	switch item := &all[i]; item.Type {
	case "", "message":
		for _, b := range item.Content {
			if b.Type == "input_image" || b.Type == "input_file" {
				b.Text = "[" + b.Type + "]"
			}
			role := tree.RoleUser
			if item.Role == "assistant" {
				role = tree.RoleAssistant
			}
			if err := r.add(role, tree.Text{Text: b.Text}); err != nil {
				return err
			}
		}
		return nil
	case "reasoning":
		return r.reasoning(item, all[i+1:])
	case "function_call":
		return r.add(tree.RoleAssistant, tree.ToolUse{ProviderID: item.CallID, Name: item.Name, Input: json.RawMessage(item.Arguments)})
	case "function_call_output":
		text, isError := strings.CutPrefix(item.Output, errorPrefix)
		return r.result(item.CallID, text, isError)
	default:
		return fmt.Errorf("an item of type %q", item.Type)
	}
}

// reasoning adds reasoning before the items that follow it.
func (r *requestReader) reasoning(item *responsesItem, rest []responsesItem) error {
	led := len(rest) > 0 && (rest[0].Type == "reasoning" || rest[0].Type == "function_call" || rest[0].Role == "assistant")
	switch {
	case item.ID == "" || item.Summary == nil:
		return errors.New("reasoning needs its id and its summary")
	case item.Encrypted != encryptedReasoning:
		return fmt.Errorf("the encrypted content for item %s could not be verified", item.ID)
	case !led:
		return fmt.Errorf("item %q of type 'reasoning' was provided without its required following item", item.ID)
	}
	var texts []string
	for _, s := range *item.Summary {
		texts = append(texts, s.Text)
	}
	return r.add(tree.RoleAssistant, tree.Thinking{Text: strings.Join(texts, "\n\n"), Signature: item.Encrypted})
}

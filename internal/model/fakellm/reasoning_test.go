package fakellm_test

import (
	"reflect"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestReasoningGoesBack to the provider that can read it: before the calls that it has led to.
func TestReasoningGoesBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		var heard []tree.Block
		m, _ := serve(t, api, fakellm.Config{Model: says(func(req *model.Request) (*model.Answer, error) {
			if len(req.Messages) > 1 {
				heard = req.Messages[1].Blocks
			}
			return rich(), nil
		})})
		req := ask()
		answer, err := m.Generate(t.Context(), req, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Messages = append(req.Messages, tree.Message{Role: tree.RoleAssistant, Blocks: answer.Blocks}, tree.Message{
			Role: tree.RoleTool, Blocks: []tree.Block{tree.ToolResult{Block: 2}, tree.ToolResult{Block: 3}},
		})
		if _, err := m.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		thought := tree.Thinking{Text: "Hm, „both“.", Signature: "c2VhbGVk"}
		if got := len(heard) > 0 && reflect.DeepEqual(heard[0], thought); got != (api != "openai") {
			t.Errorf("heard %+v", heard)
		}
	})
}

// TestReasoningAlone: a conversation goes on after an answer that was only reasoning.
func TestReasoningAlone(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, api string) {
		m, _ := serve(t, api, fakellm.Config{Model: always(rich())})
		req := ask()
		req.Messages = append(req.Messages,
			tree.Message{Role: tree.RoleAssistant, Blocks: []tree.Block{tree.Thinking{Text: "Hm", Signature: "c2VhbGVk"}, tree.Text{Text: "\n"}}},
			tree.Message{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "And?"}}},
		)
		if _, err := m.Generate(t.Context(), req, nil); err != nil {
			t.Error(err)
		}
	})
}

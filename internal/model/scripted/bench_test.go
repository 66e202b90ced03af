package scripted_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/scripted"
	"github.com/coppice-run/coppice/internal/tree"
)

// BenchmarkGenerate answers a request with many results, and one with none.
func BenchmarkGenerate(b *testing.B) {
	s, err := scripted.Parse("fan.yaml", []byte(`
about: a fan
steps:
  - {when: {depth: 0}, text: 'done {{len (results "task")}}'}
  - {text: ok}
`))
	if err != nil {
		b.Fatal(err)
	}
	for _, results := range []int{0, 1000} {
		b.Run(fmt.Sprintf("results=%d", results), func(b *testing.B) {
			req := &model.Request{Depth: 1, Messages: []tree.Message{
				{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "go"}}},
			}}
			if results > 0 {
				req.Depth = 0
				req.Messages = append(req.Messages, answered(results)...)
			}
			m := scripted.New(s)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Generate(b.Context(), req, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// answered is a message with calls of the tool task, and their results.
func answered(calls int) []tree.Message {
	asked, results := tree.Message{Role: tree.RoleAssistant}, tree.Message{Role: tree.RoleTool}
	for i := range calls {
		asked.Blocks = append(asked.Blocks, tree.ToolUse{
			Name: "task", Input: json.RawMessage(`{"description":"c","prompt":"leaf","subagent_type":"explore"}`),
		})
		results.Blocks = append(results.Blocks, tree.ToolResult{
			Block: i, Text: `{"task_id":"01a20105-aaa3-75ec-8690-d8ef01f84260","status":"completed","summary":"ok"}`,
		})
	}
	return []tree.Message{asked, results}
}

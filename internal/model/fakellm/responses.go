package fakellm

import (
	"fmt"
	"net/http"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// responses is OpenAI's Responses API.
type responses struct{}

func (responses) refusal(status int, message string) any {
	return completions{}.refusal(status, message)
}

func (responses) begin(out *events, name string) answer {
	r := &response{out: out, model: name}
	r.send("response.created", fields{"response": r.snapshot("in_progress", nil)})
	return r
}

// response is an answer that is being written.
type response struct {
	out   *events
	model string
	sent  int    // number of events
	items []any  // complete items
	open  string // type of the open item; empty: none
	shown string // its text so far

}

func (r *response) send(name string, f fields) {
	f["type"], f["sequence_number"] = name, r.sent
	r.sent++
	r.out.send(name, f.String())
}

// snapshot returns the answer so far.
func (r *response) snapshot(status string, more fields) fields {
	out := fields{
		"id": "resp_fake", "object": "response", "created_at": 1_700_000_000, "model": r.model, "status": status,
		"error": nil, "incomplete_details": nil, "output": append([]any{}, r.items...), "usage": nil,
	}
	for name, value := range more {
		out[name] = value
	}
	return out
}

func (r *response) id() string { return fmt.Sprintf("item_%d", len(r.items)) }

func (r *response) delta(d model.Delta) {
	kind, event, piece := "message", "response.output_text.delta", fields{"content_index": 0}
	if d.Thinking {
		kind, event, piece = "reasoning", "response.reasoning_summary_text.delta", fields{"summary_index": 0}
	}
	if r.open != kind {
		r.close()
		r.open = kind
		r.send("response.output_item.added", fields{"output_index": len(r.items), "item": r.item("in_progress")})
	}
	r.shown += d.Text
	piece["item_id"], piece["output_index"], piece["delta"] = r.id(), len(r.items), d.Text
	r.send(event, piece)
}

// encryptedReasoning stands for content that only the provider can read.
const encryptedReasoning = "c2VhbGVk"

// item returns the open text or reasoning item.
func (r *response) item(status string) fields {
	if r.open == "reasoning" {
		return fields{
			"type": r.open, "id": r.id(), "summary": []any{fields{"type": "summary_text", "text": r.shown}}, "encrypted_content": encryptedReasoning,
		}
	}
	part := fields{"type": "output_text", "text": r.shown, "annotations": []any{}}
	return fields{"type": r.open, "id": r.id(), "role": "assistant", "status": status, "content": []any{part}}
}

// close completes the open item.
func (r *response) close() {
	if r.open != "" {
		r.done(r.item("completed"))
	}
	r.open, r.shown = "", ""
}

func (r *response) done(item fields) {
	r.send("response.output_item.done", fields{"output_index": len(r.items), "item": item})
	r.items = append(r.items, item)
}

func (r *response) finish(a *model.Answer) {
	r.close()
	for _, b := range a.Blocks {
		if use, ok := b.(tree.ToolUse); ok {
			r.call(use)
		}
	}
	status, event, more := "completed", "response.completed", fields{}
	if reason := map[tree.StopReason]string{tree.StopMaxTokens: "max_output_tokens", tree.StopRefusal: "content_filter"}[a.Stop]; reason != "" {
		status, event = "incomplete", "response.incomplete"
		more["incomplete_details"] = fields{"reason": reason}
	}
	u := a.Usage
	more["usage"] = fields{
		"input_tokens": u.Input + u.CacheRead + u.CacheWrite, "output_tokens": u.Output, "total_tokens": u.Total(),
		"input_tokens_details":  fields{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
		"output_tokens_details": fields{"reasoning_tokens": 0},
	}
	r.send(event, fields{"response": r.snapshot(status, more)})
}

func (r *response) call(use tree.ToolUse) {
	item := fields{"type": "function_call", "id": r.id(), "call_id": use.ProviderID, "name": use.Name, "arguments": "", "status": "in_progress"}
	r.send("response.output_item.added", fields{"output_index": len(r.items), "item": item})
	for _, part := range halves(string(use.Input)) {
		r.send("response.function_call_arguments.delta", fields{"item_id": r.id(), "output_index": len(r.items), "delta": part})
	}
	item["arguments"], item["status"] = string(use.Input), "completed"
	r.done(item)
}

func (r *response) fail(status int, message string) {
	code := "server_error"
	if status == http.StatusTooManyRequests {
		code = "rate_limit_exceeded"
	}
	r.send("response.failed", fields{"response": r.snapshot("failed", fields{"error": fields{"code": code, "message": message}})})
}

package fakellm

import (
	"net/http"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// completions is OpenAI's chat completions API.
type completions struct{}

func (completions) refusal(status int, message string) any {
	kind := "invalid_request_error"
	switch {
	case status == http.StatusTooManyRequests:
		kind = "rate_limit_exceeded"
	case status >= http.StatusInternalServerError:
		kind = "server_error"
	}
	return fields{"error": fields{"message": message, "type": kind, "param": nil, "code": kind}}
}

func (completions) begin(out *events, name string) answer {
	c := &completion{out: out, model: name}
	c.send(fields{"role": "assistant", "content": ""}, nil)
	return c
}

// completion is an answer that is being written.
type completion struct {
	out   *events
	model string
}

// send writes a chunk. finish is the finish reason, or nil.
func (c *completion) send(delta fields, finish any) {
	c.chunk([]any{fields{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}}, nil)
}

func (c *completion) chunk(choices []any, usage any) {
	c.out.send("", fields{
		"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": c.model,
		"choices": choices, "usage": usage,
	}.String())
}

func (c *completion) delta(d model.Delta) {
	if d.Thinking {
		c.send(fields{"reasoning_content": d.Text}, nil)
	} else {
		c.send(fields{"content": d.Text}, nil)
	}
}

func (c *completion) finish(a *model.Answer) {
	n := 0
	for _, b := range a.Blocks {
		use, ok := b.(tree.ToolUse)
		if !ok {
			continue
		}
		c.send(fields{"tool_calls": []any{fields{
			"index": n, "id": use.ProviderID, "type": "function", "function": fields{"name": use.Name, "arguments": ""},
		}}}, nil)
		for _, part := range halves(string(use.Input)) {
			c.send(fields{"tool_calls": []any{fields{"index": n, "function": fields{"arguments": part}}}}, nil)
		}
		n++
	}
	c.send(fields{}, map[tree.StopReason]string{
		tree.StopEndTurn: "stop", tree.StopToolUse: "tool_calls", tree.StopMaxTokens: "length", tree.StopRefusal: "content_filter",
	}[a.Stop])
	u := a.Usage
	c.chunk([]any{}, fields{
		"prompt_tokens": u.Input + u.CacheRead + u.CacheWrite, "completion_tokens": u.Output, "total_tokens": u.Total(),
		"prompt_tokens_details": fields{"cached_tokens": u.CacheRead, "cache_write_tokens": u.CacheWrite},
	})
	c.out.send("", "[DONE]")
}

func (c *completion) fail(status int, message string) {
	refusal := completions{}.refusal(status, message).(fields)
	refusal["error"].(fields)["code"] = status
	c.out.send("", refusal.String())
}

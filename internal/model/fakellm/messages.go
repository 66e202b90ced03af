package fakellm

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// messages is Anthropic's Messages API.
type messages struct{}

func (messages) refusal(status int, message string) any {
	kind := "invalid_request_error"
	switch status {
	case http.StatusTooManyRequests:
		kind = "rate_limit_error"
	case http.StatusUnauthorized:
		kind = "authentication_error"
	case statusOverloaded, http.StatusServiceUnavailable:
		kind = "overloaded_error"
	case http.StatusInternalServerError, http.StatusBadGateway:
		kind = "api_error"
	}
	return fields{"type": "error", "error": fields{"type": kind, "message": message}}
}

// fields is a JSON object.
type fields map[string]any

func (f fields) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("an event has no JSON form: %v", err)) // events are built here, so this cannot happen
	}
	return string(text)
}

func (messages) begin(out *events, name string) answer {
	m := &message{out: out, open: -1}
	m.send("message_start", fields{"message": fields{
		"id": "msg_fake", "type": "message", "role": "assistant", "model": name, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
		"usage": fields{"input_tokens": 1, "output_tokens": 1, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
	}})
	m.send("ping", fields{})
	return m
}

// message is an answer that is being written.
type message struct {
	out      *events
	blocks   int
	open     int // the open block; -1 for none
	thinking bool
	said     bool // some text was written
}

func (m *message) send(name string, f fields) {
	f["type"] = name
	m.out.send(name, f.String())
}

func (m *message) start(block fields) {
	m.stop()
	m.open = m.blocks
	m.blocks++
	m.send("content_block_start", fields{"index": m.open, "content_block": block})
}

func (m *message) piece(delta fields) {
	m.send("content_block_delta", fields{"index": m.open, "delta": delta})
}

func (m *message) stop() {
	if m.open < 0 {
		return
	}
	if m.thinking {
		m.piece(fields{"type": "signature_delta", "signature": "c2VhbGVk"})
		m.thinking = false
	}
	m.send("content_block_stop", fields{"index": m.open})
	m.open = -1
}

func (m *message) delta(d model.Delta) {
	m.said = true
	if m.open < 0 || m.thinking != d.Thinking {
		if d.Thinking {
			m.start(fields{"type": "thinking", "thinking": "", "signature": ""})
		} else {
			m.start(fields{"type": "text", "text": ""})
		}
		m.thinking = d.Thinking
	}
	if d.Thinking {
		m.piece(fields{"type": "thinking_delta", "thinking": d.Text})
	} else {
		m.piece(fields{"type": "text_delta", "text": d.Text})
	}
}

func (m *message) finish(a *model.Answer) {
	for _, b := range a.Blocks {
		use, ok := b.(tree.ToolUse)
		if !ok {
			continue
		}
		m.start(fields{"type": "tool_use", "id": use.ProviderID, "name": use.Name, "input": fields{}})
		for _, part := range halves(string(use.Input)) {
			m.piece(fields{"type": "input_json_delta", "partial_json": part})
		}
	}
	m.stop()
	m.send("message_delta", fields{
		"delta": fields{"stop_reason": map[tree.StopReason]string{
			tree.StopEndTurn: "end_turn", tree.StopToolUse: "tool_use", tree.StopMaxTokens: "max_tokens", tree.StopRefusal: "refusal",
		}[a.Stop], "stop_sequence": nil},
		"usage": fields{
			"input_tokens": a.Usage.Input, "output_tokens": a.Usage.Output,
			"cache_read_input_tokens": a.Usage.CacheRead, "cache_creation_input_tokens": a.Usage.CacheWrite,
		},
	})
	m.send("message_stop", fields{})
}

func (m *message) fail(status int, text string) {
	m.out.send("error", messages{}.refusal(status, text).(fields).String())
}

// halves splits a text in two, between characters.
func halves(s string) []string {
	at := len(s) / 2
	for at > 0 && s[at]&0xC0 == 0x80 {
		at--
	}
	return []string{s[:at], s[at:]}
}

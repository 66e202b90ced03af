package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// says is a message of a role.
func says(role tree.Role, blocks ...tree.Block) tree.Message {
	return tree.Message{Role: role, Blocks: blocks}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	hi := says(tree.RoleUser, tree.Text{Text: "hi"})
	for _, test := range []struct {
		name   string
		config Config
		req    model.Request
		want   string
	}{
		{
			"a question", Config{Model: "m"}, model.Request{System: "be", Messages: []tree.Message{hi}},
			`{"messages":[{"content":"be","role":"system"},{"content":"hi","role":"user"}],"model":"m","stream_options":{"include_usage":true}}`,
		},
		{
			"another model", Config{Model: "m"}, model.Request{Model: "n", Messages: []tree.Message{hi}},
			`{"messages":[{"content":"hi","role":"user"}],"model":"n","stream_options":{"include_usage":true}}`,
		},
		{
			"a tool, elsewhere", Config{Model: "m", BaseURL: "http://h/v1"},
			model.Request{Messages: []tree.Message{hi}, Tools: []model.ToolSpec{{Name: "a", Description: "A", Schema: json.RawMessage(`{"type":"object"}`)}}},
			`{"messages":[{"content":"hi","role":"user"}],"model":"m","stream_options":{"include_usage":true},` +
				`"tools":[{"function":{"name":"a","description":"A","parameters":{"type":"object"}},"type":"function"}]}`,
		},
		{
			"images and documents at OpenAI's", Config{Model: "m"},
			model.Request{Messages: []tree.Message{
				says(tree.RoleUser, tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Data: []byte("png")}), says(tree.RoleAssistant, tree.Text{Text: "a"}),
				says(tree.RoleUser,
					tree.Attachment{Kind: tree.AttachmentImage, URL: "https://h/i"}, tree.Text{Text: "and"},
					tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "application/pdf", Data: []byte("pdf")},
					tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "text/plain", Data: []byte("txt")},
					tree.Attachment{Kind: tree.AttachmentDocument, URL: "https://h/d"},
				),
			}},
			`{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,cG5n"},"type":"image_url"}],"role":"user"},{"content":"a","role":"assistant"},` +
				`{"content":[{"image_url":{"url":"https://h/i"},"type":"image_url"},{"file":{"file_data":"data:application/pdf;base64,cGRm","filename":"document.pdf"},"type":"file"},` +
				`{"text":"txt","type":"text"},{"text":"and\n\n[a document, https://h/d: it can't be shown here]","type":"text"}],"role":"user"}],"model":"m","stream_options":{"include_usage":true}}`,
		},
		{
			"an image elsewhere", Config{Model: "m", BaseURL: "http://h/v1"},
			model.Request{Messages: []tree.Message{says(tree.RoleUser, tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Data: []byte("png")})}},
			`{"messages":[{"content":"[an image, image/png, 3 bytes: it can't be shown here]","role":"user"}],"model":"m","stream_options":{"include_usage":true}}`,
		},
		{
			"calls, results, news and a reminder", Config{Model: "m"},
			model.Request{Reminder: "mind", Messages: []tree.Message{
				hi, says(tree.RoleAssistant, tree.Thinking{Text: "hm"}, tree.Text{Text: "a"}, tree.Text{Text: "b"}, tree.ToolUse{ProviderID: "c1", Name: "ls", Input: json.RawMessage(`{"p`)}),
				says(tree.RoleTool, tree.ToolResult{Block: 3, Text: "no", IsError: true}), says(tree.RoleUser, tree.Text{Text: "news"}),
			}},
			`{"messages":[{"content":"hi","role":"user"},{"content":"a\nb","tool_calls":[{"id":"c1","function":{"arguments":"{\"malformed\":\"{\\\"p\"}","name":"ls"},"type":"function"}],"role":"assistant"},` +
				`{"content":"Error: no","tool_call_id":"c1","role":"tool"},{"content":"news\n\nmind","role":"user"}],"model":"m","stream_options":{"include_usage":true}}`,
		},
		{
			"an answer of which nothing is sent back", Config{Model: "m", BaseURL: "http://h/v1"},
			model.Request{Messages: []tree.Message{
				hi, says(tree.RoleAssistant, tree.Thinking{Text: "hm"}), says(tree.RoleUser, tree.Text{Text: "so?"}),
				says(tree.RoleAssistant, tree.Text{Text: "a"}), says(tree.RoleUser, tree.Text{Text: "b"}),
			}},
			`{"messages":[{"content":"hi\n\nso?","role":"user"},{"content":"a","role":"assistant"},{"content":"b","role":"user"}],"model":"m","stream_options":{"include_usage":true}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			params, err := test.config.params(&test.req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(params)
			if err != nil {
				t.Fatal(err)
			}
			if !sameJSON(t, string(got), test.want) {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// sameJSON compares two texts, whatever the order of keys.
func sameJSON(t *testing.T, got, want string) bool {
	t.Helper()
	var norm [2]string
	for i, text := range []string{got, want} {
		var v any
		if err := json.NewDecoder(strings.NewReader(text)).Decode(&v); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		norm[i] = string(out)
	}
	return norm[0] == norm[1]
}

// TestCacheKey: OpenAI is told which conversations begin alike; other servers know nothing of it.
func TestCacheKey(t *testing.T) {
	t.Parallel()
	first := says(tree.RoleUser, tree.Text{Text: "hi"})
	first.ID = tree.MessageID{15: 7}
	req := &model.Request{Messages: []tree.Message{first, says(tree.RoleAssistant, tree.Text{Text: "yes?"}), says(tree.RoleUser, tree.Text{Text: "go on"})}}
	for base, want := range map[string]string{"": first.ID.String(), "http://h/v1": ""} {
		c := Config{Model: "m", BaseURL: base}
		chat, err := c.params(req)
		if err != nil {
			t.Fatal(err)
		}
		newer, err := c.responseParams(req)
		if err != nil {
			t.Fatal(err)
		}
		if got := chat.PromptCacheKey.Or(""); got != want {
			t.Errorf("chat completions at %q has the key %q", base, got)
		}
		if got := newer.PromptCacheKey.Or(""); got != want {
			t.Errorf("responses at %q has the key %q", base, got)
		}
	}
}

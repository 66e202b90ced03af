package anthropic

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestRefusedAttachments: a conversation with an attachment that the provider won't take
// goes on with a note in its place, and other conversations with theirs.
func TestRefusedAttachments(t *testing.T) {
	t.Parallel()
	shows := func(body string) bool { return strings.Contains(body, `"type":"image"`) }
	for name, test := range map[string]struct {
		model, url string
		refused    func(body string) bool
		asked      []bool // whether each request of three calls shows it, the last one with another conversation
		err        string
	}{
		"it is fine":           {"claude-opus-5", "", func(string) bool { return false }, []bool{true, true, true}, ""},
		"it is refused":        {"claude-opus-5", "", shows, []bool{true, false, false, true, false}, ""},
		"all is refused":       {"claude-opus-5", "", func(string) bool { return true }, []bool{true, false, true, false, true, false}, "no way"},
		"a gateway to Claude":  {"anthropic/claude-sonnet-4.6", "http://gateway", func(string) bool { return false }, []bool{true, true, true}, ""},
		"one that refuses it":  {"anthropic/claude-sonnet-4.6", "http://gateway", shows, []bool{true, false, false, true, false}, ""},
		"a server's own model": {"deepseek-chat", "http://gateway", shows, []bool{false, false, false}, ""},
		"reasoning as well": {
			"claude-opus-5", "", func(body string) bool { return shows(body) || strings.Contains(body, `"signature"`) },
			[]bool{true, true, false, false, true, true, false}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := &strict{refusal: func(body string, _ http.Header) string {
				switch {
				case !test.refused(body):
					return ""
				case strings.Contains(body, `"signature"`):
					return "messages.1.content.0: Invalid `signature` in `thinking` block"
				}
				return "no way"
			}}
			m, err := New(Config{Key: "k", BaseURL: test.url, Model: test.model, HTTP: &http.Client{Transport: provider}})
			if err != nil {
				t.Fatal(err)
			}
			png := tree.Attachment{Kind: tree.AttachmentImage, Name: "plan", MediaType: "image/png", Data: []byte("png")}
			said := []tree.Message{
				said(tree.RoleUser, tree.Text{Text: "look"}, png),
				said(tree.RoleAssistant, tree.Text{Text: "I do"}),
				said(tree.RoleUser, tree.Text{Text: "and?"}),
			}
			if name == "reasoning as well" {
				said[1].Blocks = []tree.Block{tree.Thinking{Text: "hm", Signature: "s"}, tree.Text{Text: "I do"}}
			}
			one, other := tree.TaskID{1}, tree.TaskID{2}
			for _, task := range []tree.TaskID{one, one, other} {
				_, err := m.Generate(t.Context(), &model.Request{Messages: said, Task: task}, nil)
				if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("answered %v", err)
				}
			}
			var asked []bool
			for _, body := range provider.bodies {
				asked = append(asked, shows(body))
				if noted := strings.Contains(body, "[an image, plan, image/png, 3 bytes: it can't be shown here]"); noted == shows(body) {
					t.Errorf("asked with %s", body)
				}
			}
			if !slices.Equal(asked, test.asked) {
				t.Errorf("asked with the image %v, want %v", asked, test.asked)
			}
			if len(said[0].Blocks) != 2 || said[0].Blocks[1].(tree.Attachment).Name != "plan" {
				t.Error("the caller's messages were changed")
			}
		})
	}
}

// TestRefusedHalfway: of an answer that is refused after it has begun, what was shown is taken back.
func TestRefusedHalfway(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		times := asked.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		events := []string{
			`{"type":"message_start","message":{"type":"message","role":"assistant","model":"claude-opus-5","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Here it is."}}`,
			`{"type":"error","error":{"type":"invalid_request_error","message":"Could not process image"}}`,
		}
		if times > 1 {
			events = append(events[:3],
				`{"type":"content_block_stop","index":0}`,
				`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
				`{"type":"message_stop"}`)
		}
		for _, e := range events {
			kind, _, _ := strings.Cut(strings.TrimPrefix(e, `{"type":"`), `"`)
			if _, err := io.WriteString(w, "event: "+kind+"\ndata: "+e+"\n\n"); err != nil {
				t.Error(err)
			}
		}
	}))
	t.Cleanup(server.Close)
	m, err := New(Config{Key: "k", BaseURL: server.URL, Model: "claude-opus-5", HTTP: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	png := tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Data: []byte("png")}
	var shown string
	answer, err := m.Generate(t.Context(), &model.Request{Messages: []tree.Message{said(tree.RoleUser, tree.Text{Text: "look"}, png)}}, func(d model.Delta) {
		if d.Restart {
			shown += "|"
			return
		}
		shown += d.Text
	})
	if err != nil || len(answer.Blocks) != 1 || shown != "Here it is.|Here it is." {
		t.Errorf("shown was %q; the answer is %+v, %v", shown, answer, err)
	}
}

// TestNothingIsLearnedFromAnEcho: a refusal that repeats the URL of an image says nothing about the
// reasoning.
func TestNothingIsLearnedFromAnEcho(t *testing.T) {
	t.Parallel()
	const url = "https://evil.example/" + dropField
	req := &model.Request{Messages: []tree.Message{
		said(tree.RoleUser, tree.Attachment{Kind: tree.AttachmentImage, URL: url}),
		said(tree.RoleAssistant, tree.Thinking{Text: "hm", Signature: "s"}, tree.Text{Text: "there"}),
		said(tree.RoleUser, tree.Text{Text: "and?"}),
	}}
	refused := &model.Error{Kind: model.ErrorInvalid, Err: errors.New("cannot fetch " + url)}
	if next, want := (attempt{}).next(refused, req), (attempt{omission: omission{attachments: true}}); next != want {
		t.Errorf("the next attempt is %+v", next)
	}
}

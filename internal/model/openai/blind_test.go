package openai

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestRefusedAttachments: a conversation with an attachment that the provider won't take
// goes on with a note in its place, and other conversations with theirs.
func TestRefusedAttachments(t *testing.T) {
	t.Parallel()
	shows := func(body string) bool { return strings.Contains(body, `"type":"image_url"`) }
	none := func(body string) bool { return strings.Contains(body, `"reasoning_effort":"none"`) }
	for name, test := range map[string]struct {
		refusal func(body string) string
		asked   []bool // whether each request of three calls shows it, the last one with another conversation
		err     string
	}{
		"it is fine": {func(string) string { return "" }, []bool{true, true, true}, ""},
		"it is refused": {func(body string) string {
			if shows(body) {
				return "image_url is only supported by certain models"
			}
			return ""
		}, []bool{true, false, false, true, false}, ""},
		"all is refused": {func(body string) string {
			if shows(body) {
				return "the first refusal"
			}
			return "the last one"
		}, []bool{true, false, true, false, true, false}, "the first refusal"},
		"a habit as well": {func(body string) string {
			switch {
			case !none(body):
				return "set reasoning_effort to 'none'"
			case shows(body):
				return "image_url is only supported by certain models"
			}
			return ""
		}, []bool{true, true, false, false, true, false}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := &picky{refusal: test.refusal}
			m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: from}})
			if err != nil {
				t.Fatal(err)
			}
			png := tree.Attachment{Kind: tree.AttachmentImage, Name: "plan", MediaType: "image/png", Data: []byte("png")}
			one, other := tree.TaskID{1}, tree.TaskID{2}
			for _, task := range []tree.TaskID{one, one, other} {
				_, err := m.Generate(t.Context(), &model.Request{
					Task: task, Messages: []tree.Message{says(tree.RoleUser, tree.Text{Text: "look"}, png)},
					Tools: []model.ToolSpec{{Name: "ls", Schema: []byte(`{"type":"object"}`)}},
				}, nil)
				if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("answered %v", err)
				}
			}
			var asked []bool
			for _, body := range from.bodies {
				asked = append(asked, shows(body))
				if noted := strings.Contains(body, "[an image, plan, image/png, 3 bytes: it can't be shown here]"); noted == shows(body) {
					t.Errorf("asked with %s", body)
				}
			}
			if !slices.Equal(asked, test.asked) {
				t.Errorf("asked with the image %v, want %v", asked, test.asked)
			}
		})
	}
}

// TestAnImageThatFailsTheAnswer: over Responses an image may be refused when the answer has
// begun, and then too the conversation goes on with a note in its place.
func TestAnImageThatFailsTheAnswer(t *testing.T) {
	t.Parallel()
	from := &apart{answer: func(said string) server {
		if strings.Contains(said, "image") {
			return steps(`{"type":"response.output_text.delta","delta":"I see"}`, `{"type":"response.failed","response":{"error":{"code":"image_parse_error","message":"no"}}}`)
		}
		return server{}
	}}
	m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: from}, Responses: true})
	if err != nil {
		t.Fatal(err)
	}
	var shown []model.Delta
	for range 2 {
		if _, err := m.Generate(t.Context(), seen(tree.TaskID{1}), func(d model.Delta) { shown = append(shown, d) }); err != nil {
			t.Errorf("answered %v", err)
		}
	}
	if len(shown) != 2 || shown[0].Text != "I see" || !shown[1].Restart {
		t.Errorf("shown: %+v", shown)
	}
	const noted = "responses include thoughts phase"
	if want := []string{"responses include thoughts image phase", noted, noted}; !slices.Equal(from.asked, want) {
		t.Errorf("asked %q\nwant  %q", from.asked, want)
	}
}

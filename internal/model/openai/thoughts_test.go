package openai

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// another is a server that can't read some of the reasoning that goes back to it.
type another struct {
	refused []string
	asked   []string // the reasoning in each request
}

var reasoned = regexp.MustCompile(`rs_[a-e]`)

func (a *another) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	ids := reasoned.FindAllString(string(body), -1)
	a.asked = append(a.asked, strings.Join(ids, " "))
	if slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(a.refused, id) }) {
		return server{status: http.StatusBadRequest, body: `{"error":{"message":"The encrypted content could not be verified."}}`}.RoundTrip(req)
	}
	return steps(`{"type":"response.completed","response":{"status":"completed","output":[]}}`).RoundTrip(req)
}

// TestRefusedThoughtsAreRemembered: reasoning that was refused once does not go back to be
// refused with each call. New reasoning does, unless that is refused as well.
func TestRefusedThoughtsAreRemembered(t *testing.T) {
	t.Parallel()
	from := &another{}
	m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: from}, Responses: true})
	if err != nil {
		t.Fatal(err)
	}
	req := &model.Request{Task: tree.TaskID{1}, Messages: []tree.Message{says(tree.RoleUser, tree.Text{Text: "hi"})}}
	for _, step := range []struct {
		thoughts []string // that have come in
		refused  []string
		want     []string // the reasoning in each request
	}{
		{[]string{"a", "b"}, []string{"rs_a"}, []string{"rs_a rs_b", ""}},
		{nil, []string{"rs_a"}, []string{""}},
		{[]string{"c"}, []string{"rs_a"}, []string{"rs_c"}},
		{[]string{"d"}, []string{"rs_d"}, []string{"rs_c rs_d", ""}},
		{[]string{"e"}, nil, []string{""}},
	} {
		for _, id := range step.thoughts {
			req.Messages = append(req.Messages,
				says(tree.RoleAssistant, tree.Thinking{Signature: "openai:rs_" + id + ":s"}, tree.Text{Text: "there"}),
				says(tree.RoleUser, tree.Text{Text: "and?"}))
		}
		from.refused, from.asked = step.refused, nil
		if _, err := m.Generate(t.Context(), req, nil); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(from.asked, step.want) {
			t.Errorf("with %v: asked with %q, want %q", step.thoughts, from.asked, step.want)
		}
	}
	req.Task, from.refused, from.asked = tree.TaskID{2}, nil, nil
	if _, err := m.Generate(t.Context(), req, nil); err != nil || !slices.Equal(from.asked, []string{"rs_a rs_b rs_c rs_d rs_e"}) {
		t.Errorf("another conversation: %v, asked with %q", err, from.asked)
	}
}

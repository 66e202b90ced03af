package telemetry

import (
	"context"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// speaker is a model that says something each second, and fails if it has no answer.
type speaker struct {
	model.Model
	says   []model.Delta
	answer *model.Answer
}

func (s speaker) Generate(_ context.Context, _ *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	for _, d := range s.says {
		time.Sleep(time.Second)
		emit(d)
	}
	if s.answer == nil {
		return nil, &model.Error{Kind: model.ErrorRateLimited}
	}
	return s.answer, nil
}

// TestFirstChunk: the first piece of an answer is the model's, not word of why there is
// none yet.
func TestFirstChunk(t *testing.T) {
	t.Parallel()
	notice, piece := model.Delta{Restart: true, Text: "[rate limited]"}, model.Delta{Text: "well"}
	for name, test := range map[string]struct {
		speaker
		want string // as the page has it; empty: there was none
	}{
		"an answer":         {speaker{says: []model.Delta{piece, piece}, answer: &model.Answer{}}, "1"},
		"after a while":     {speaker{says: []model.Delta{notice, notice, piece, piece}, answer: &model.Answer{}}, "3"},
		"what was given up": {speaker{says: []model.Delta{piece, notice, piece}, answer: &model.Answer{}}, "1"},
		"nothing":           {speaker{says: []model.Delta{notice, notice}}, ""},
		"no whole answer":   {speaker{says: []model.Delta{piece, piece}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, err := open(t, nil)
				if err != nil {
					t.Fatal(err)
				}
				asked, err := m.TraceModel(test.speaker)
				if err != nil {
					t.Fatal(err)
				}
				var said []model.Delta
				_, err = asked.Generate(t.Context(), &model.Request{Messages: []tree.Message{{}}}, func(d model.Delta) { said = append(said, d) })
				if (err == nil) != (test.answer != nil) || len(said) != len(test.says) {
					t.Errorf("%d pieces came, and %v", len(said), err)
				}
				sum := regexp.MustCompile(`(?m)^gen_ai_client_operation_time_to_first_chunk_seconds_sum\{.*\} (.*)$`).FindStringSubmatch(text(t, m))
				switch {
				case test.want == "" && sum != nil:
					t.Errorf("the first piece came after %s s, and there was no answer", sum[1])
				case test.want != "" && (sum == nil || sum[1] != test.want):
					t.Errorf("the first piece came after %v s, want %s", sum, test.want)
				}
			})
		})
	}
}

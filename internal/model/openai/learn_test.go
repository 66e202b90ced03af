package openai

import (
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestWhatOneTaskIsRefused: a refusal over Responses that is of one conversation stays that
// conversation's, and other tasks of the model are asked as they were. One that is of the
// model, the API or the key is every task's, and is logged once.
func TestWhatOneTaskIsRefused(t *testing.T) {
	t.Parallel()
	const (
		over  = "responses include thoughts phase"
		plain = "completions"
	)
	for name, test := range map[string]struct {
		status int
		body   string
		want   []string // the requests of tasks 1, 2, 2 and 3, of which only the second is refused over Responses
		err    model.ErrorKind
		logged int
		effort string // which is refused over the older API
	}{
		"too long": {
			400, `{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}`,
			[]string{over, over, over, over}, model.ErrorTooLong, 0, "",
		},
		"too large for the account": {
			429, `{"error":{"message":"Request too large for m on tokens per min","type":"tokens","code":"rate_limit_exceeded"}}`,
			[]string{over, over, over, over}, model.ErrorTooLong, 0, "",
		},
		"flagged": {
			400, `{"error":{"message":"Invalid prompt: your prompt was flagged.","type":"invalid_request_error","code":"invalid_prompt"}}`,
			[]string{over, over, over, over}, model.ErrorInvalid, 0, "",
		},
		"for some other reason": {
			400, `{"error":{"message":"Invalid value: 'input[2]'.","type":"invalid_request_error"}}`,
			[]string{over, over, plain, plain, over}, 0, 0, "",
		},
		"and over the older API the effort": {
			400, `{"error":{"message":"Invalid value: 'input[2]'.","type":"invalid_request_error"}}`,
			[]string{"responses include thoughts effort phase", "responses include thoughts effort phase", plain + " effort", plain, plain, "responses include thoughts effort phase"}, 0, 1, "low",
		},
		"the key": {
			401, `{"error":{"message":"You have insufficient permissions for this operation. Missing scopes: api.responses.write. Check that you have the correct role.","type":"invalid_request_error"}}`,
			[]string{over, over, plain, plain, plain}, 0, 1, "",
		},
		"another key": {
			401, `{"error":{"message":"Incorrect API key provided.","type":"invalid_request_error","code":"invalid_api_key"}}`,
			[]string{over, over, over, over}, model.ErrorAuth, 0, "",
		},
		"the model": {
			400, `{"error":{"message":"The requested model 'm' cannot be used with the Responses API.","type":"invalid_request_error"}}`,
			[]string{over, over, plain, plain, plain}, 0, 1, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, logged := &apart{}, &lines{}
			m, err := New(Config{
				Key: "k", Model: "m", HTTP: &http.Client{Transport: from}, Responses: true, Effort: test.effort,
				Logger: slog.New(slog.NewTextHandler(logged, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range []byte{1, 2, 2, 3} {
				from.answer = func(said string) server {
					if task == 2 && strings.HasPrefix(said, "responses") {
						return server{status: test.status, body: test.body}
					}
					if said == plain+" effort" {
						return server{status: 400, body: `{"error":{"message":"Function tools with reasoning_effort are not supported."}}`}
					}
					return server{}
				}
				req := seen(tree.TaskID{task})
				req.Messages[0].Blocks = req.Messages[0].Blocks[:1] // without the image
				_, err := m.Generate(t.Context(), req, nil)
				failed, _ := errors.AsType[*model.Error](err)
				if refused := task == 2 && test.err != 0; refused != (err != nil) || refused && (failed == nil || failed.Kind != test.err) {
					t.Errorf("task %d was answered %v", task, err)
				}
			}
			if !reflect.DeepEqual(from.asked, test.want) {
				t.Errorf("asked %q\nwant  %q", from.asked, test.want)
			}
			if n := logged.with("for as long as the process lives"); n != test.logged {
				t.Errorf("it was logged %d times, want %d: %s", n, test.logged, logged.all)
			}
		})
	}
}

// lines is what was logged.
type lines struct{ all []string }

func (l *lines) Write(p []byte) (int, error) {
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) with(words string) (n int) {
	for _, line := range l.all {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}

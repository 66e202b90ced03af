package openai

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
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
			if n := logged.with("this process changes its requests to the model from now on"); n != test.logged {
				t.Errorf("it was logged %d times, want %d: %s", n, test.logged, logged.all)
			}
		})
	}
}

// TestNothingIsLearnedFromAnEcho: a refusal of an attachment that repeats its URL or name says
// nothing about the model, whatever that contains.
func TestNothingIsLearnedFromAnEcho(t *testing.T) {
	t.Parallel()
	const all = "responses include thoughts image effort phase"
	for name, test := range map[string]struct {
		attachment tree.Attachment
		message    string
	}{
		"the API":         {tree.Attachment{URL: "https://evil.example/v1/responses.png"}, "Error while downloading https://evil.example/v1/responses.png."},
		"a code":          {tree.Attachment{URL: "https://evil.example/?model_not_found"}, "Error while downloading 'https://evil.example/?model_not_found'."},
		"escaped":         {tree.Attachment{URL: "https://evil.example/reasoning.effort"}, `No image at https:\/\/evil.example\/reasoning.effort`},
		"a quote":         {tree.Attachment{URL: `https://evil.example/"v1/responses`}, `No image at https://evil.example/\"v1/responses`},
		"a blank":         {tree.Attachment{URL: "https://evil.example/ reasoning_effort"}, "No image at https://evil.example/ reasoning_effort."},
		"data":            {tree.Attachment{MediaType: "image/png", Data: []byte("png")}, "Invalid image: data:image/png;base64,v1/responses"},
		"a name":          {tree.Attachment{MediaType: "image/png", Data: []byte("png"), Name: "v1/responses é.png"}, `No such file: v1/responses \u00e9.png`},
		"an odd name":     {tree.Attachment{MediaType: "image/png", Data: []byte("png"), Name: "a.phase"}, "No such file: 'a.phase'"},
		"another message": {tree.Attachment{URL: "https://evil.example/"}, "Error while downloading http://v1/chat/completions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := &apart{refusal: func(said string) string {
				if strings.Contains(said, "image") {
					return test.message
				}
				return ""
			}}
			m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: from}, Responses: true, Effort: "low"})
			if err != nil {
				t.Fatal(err)
			}
			test.attachment.Kind = tree.AttachmentImage
			req := seen(tree.TaskID{1})
			req.Messages[0].Blocks[1] = test.attachment
			if _, err := m.Generate(t.Context(), req, nil); err != nil {
				t.Fatal(err)
			}
			if want := []string{all, strings.Replace(all, " image", "", 1)}; !reflect.DeepEqual(from.asked, want) {
				t.Errorf("asked %q\nwant  %q", from.asked, want)
			}
			if learned := m.quirks.get("m"); learned != (quirks{}) {
				t.Errorf("learned %q", learned.descriptions())
			}
		})
	}
}

// TestManyLearnAtOnce: what two requests learn of a model at the same time is both known.
func TestManyLearnAtOnce(t *testing.T) {
	t.Parallel()
	from := &atOnce{}
	from.both.Add(2)
	m, err := New(Config{Key: "k", Model: "m", HTTP: &http.Client{Transport: from}, Responses: true})
	if err != nil {
		t.Fatal(err)
	}
	asks := func(text string) {
		_, err := m.Generate(t.Context(), &model.Request{Messages: []tree.Message{
			says(tree.RoleUser, tree.Text{Text: text}), says(tree.RoleAssistant, tree.Text{Text: "there"}), says(tree.RoleUser, tree.Text{Text: "and?"}),
		}}, nil)
		if err != nil {
			t.Errorf("%s was answered %v", text, err)
		}
	}
	var all sync.WaitGroup
	all.Go(func() { asks("one") })
	all.Go(func() { asks("two") })
	all.Wait()
	asks("three")
	if strings.Contains(from.last, `"include"`) || strings.Contains(from.last, `"phase"`) {
		t.Errorf("asked with %s", from.last)
	}
}

// atOnce refuses one request for one thing and another for another, and answers the two
// together.
type atOnce struct {
	both sync.WaitGroup
	mu   sync.Mutex
	last string
}

func (a *atOnce) RoundTrip(req *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	body := string(data)
	refused := func(why string) (*http.Response, error) {
		return server{status: http.StatusBadRequest, body: `{"error":{"message":"` + why + `"}}`}.RoundTrip(req)
	}
	one, two := strings.Contains(body, `"one"`), strings.Contains(body, `"two"`)
	switch {
	case one && strings.Contains(body, `"include"`):
		return refused("Encrypted content is not supported with this model.")
	case two && strings.Contains(body, `"phase"`):
		return refused("Unknown parameter: 'input[1].phase'.")
	case one, two:
		a.both.Done()
		a.both.Wait()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = body
	return steps(`{"type":"response.completed","response":{"status":"completed","output":[]}}`).RoundTrip(req)
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

package loop_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

const (
	theKey   = "sk-abc/DEF+ghi=0123"
	thePlace = "[redacted: THE_KEY]"
)

// teller says the key, in two pieces that are cut at a place that moves on, and notes
// what it is shown.
type teller struct {
	mu   sync.Mutex
	cut  int
	seen [][]tree.Message
}

func (m *teller) Generate(_ context.Context, req *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = append(m.seen, req.Messages)
	text := "it is " + theKey + ", " + base64.StdEncoding.EncodeToString([]byte(theKey)) + "."
	cut := m.cut % len(text)
	m.cut++
	emit(model.Delta{Text: text[:cut]})
	emit(model.Delta{Text: "[again]", Restart: true})
	emit(model.Delta{Text: text[:cut], Thinking: true})
	emit(model.Delta{Text: text[cut:], Thinking: true})
	emit(model.Delta{Text: text[:cut]})
	emit(model.Delta{Text: text[cut:]})
	answer := &model.Answer{Model: theKey, Stop: tree.StopEndTurn, Blocks: []tree.Block{
		tree.Thinking{Text: "hm", Signature: "whole"}, tree.Thinking{Text: text, Signature: "broken"}, tree.Text{Text: text},
	}}
	if len(req.Messages) < 190 {
		answer.Stop = tree.StopToolUse
		input, err := json.Marshal(map[string]string{"path": theKey})
		if err != nil {
			return nil, err
		}
		answer.Blocks = append(answer.Blocks, tree.ToolUse{ProviderID: theKey, Name: "ls", Input: input}, tree.ToolUse{Name: theKey, Input: json.RawMessage("{}")})
	}
	return answer, nil
}

// shown notes the deltas of a journal.
type shown struct {
	loop.Journal
	mu    *sync.Mutex
	text  *strings.Builder
	parts *int
}

func (s shown) Delta(d model.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.WriteString(d.Text)
	*s.parts++
}

// talker is a tool that is not built in and says the key often.
type talker struct{ counter }

func (talker) Call(_ context.Context, call tool.Call) tool.Outcome {
	return tool.Done{Text: call.FitResult("deploy", strings.Repeat(theKey, 10_000))}
}

// TestLongResultsAreKeptWithoutSecrets: tools know the secrets of the run.
func TestLongResultsAreKeptWithoutSecrets(t *testing.T) {
	t.Parallel()
	secrets, _ := redact.New(redact.Secret{Name: "THE_KEY", Value: theKey})
	dir := t.TempDir()
	ws, err := tool.OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	c := newCore(t, answers(func(req *model.Request) (*model.Answer, error) {
		if turn(req) == 0 {
			return calls(use("deploy", nil))
		}
		return says("done")
	}), talker{})
	c.prepare = func(r *loop.Run) { r.Secrets, r.Workspace = secrets, ws }
	start(t, c)
	files, err := filepath.Glob(filepath.Join(dir, tool.OutputDir, "*.txt"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q are kept: %v", files, err)
	}
	kept, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	said := c.say()
	for where, text := range map[string]string{"the file": string(kept), "the result": said} {
		if strings.Contains(text, theKey[:6]) || strings.Contains(text, theKey[len(theKey)-6:]) || !strings.Contains(text, thePlace) {
			t.Errorf("%s is not clean: %.300s", where, text)
		}
	}
}

// TestWhatIsRememberedIsStored: a run that goes on remembers, and shows its model, to
// the byte what another worker would find; and neither holds the secret, nor does any
// delta, wherever it was cut.
func TestWhatIsRememberedIsStored(t *testing.T) {
	t.Parallel()
	secrets, refused := redact.New(redact.Secret{Name: "THE_KEY", Value: theKey})
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	m := &teller{}
	c := newCore(t, m)
	var text strings.Builder
	var mu sync.Mutex
	parts := 0
	c.prepare = func(r *loop.Run) {
		r.Secrets, r.Journal = secrets, shown{r.Journal, &mu, &text, &parts}
	}
	root := c.must(tree.CreateSession{
		ID: tree.SessionID(c.newID()), Tenant: "t", Agent: c.agents["root"], Limits: tree.DefaultLimits(),
		Message: []tree.Block{tree.Text{Text: "go"}},
	}).(tree.Created).Root
	c.play(t.Context())
	stored := c.transcript(root)
	if len(m.seen) != 96 || len(stored) != 192 {
		t.Fatalf("%d calls of the model, %d messages", len(m.seen), len(stored))
	}
	for _, messages := range m.seen {
		for i, remembered := range messages {
			if !reflect.DeepEqual(remembered.Blocks, stored[i].Blocks) {
				t.Fatalf("message %d is remembered as %q, stored as %q", i, remembered.Blocks, stored[i].Blocks)
			}
		}
	}
	data, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"the transcript": string(data), "the deltas": text.String()} {
		if secrets.Has(text) || !strings.Contains(text, thePlace) {
			t.Errorf("%s are not clean: %.500s", where, text)
		}
	}
	for i, want := range []tree.Block{
		tree.Thinking{Text: "hm", Signature: "whole"},
		tree.Thinking{Text: "it is " + thePlace + ", " + thePlace + "w==."}, // the end of the base64 says too little
		tree.Text{Text: "it is " + thePlace + ", " + thePlace + "w==."},
		tree.ToolUse{ProviderID: thePlace, Name: "ls", Input: json.RawMessage(`{"path":"` + thePlace + `"}`)},
		tree.ToolUse{Name: thePlace, Input: json.RawMessage("{}")},
	} {
		if got := stored[1].Blocks[i]; !reflect.DeepEqual(got, want) {
			t.Errorf("block %d is %q, want %q", i, got, want)
		}
	}
	t.Logf("%d answers in %d pieces, cut at %d places: 0 secrets", len(m.seen), parts, len(m.seen))
}

package transcript_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

var update = flag.Bool("update", false, "write golden files anew")

// everything is a conversation with all that one can hold.
func everything() []tree.Message {
	messages := conversation(1, "u c2 t a u s4 c1 t a")
	messages[0].Blocks = append(messages[0].Blocks,
		tree.Attachment{Kind: tree.AttachmentImage, MediaType: "image/png", Name: "a.png", Data: []byte{0, 1, 2}},
		tree.Attachment{Kind: tree.AttachmentDocument, URL: "https://example.com/a.pdf"})
	messages[3].Blocks = []tree.Block{tree.Thinking{Text: "hm <b>", Signature: "seal"}, tree.Text{Text: "grüße & \x00"}}
	messages[7].Blocks[0] = tree.ToolResult{Block: 1, ProviderID: "same", Text: "no", IsError: true}
	use := messages[6].Blocks[1].(tree.ToolUse)
	use.Input = json.RawMessage(`{"broken`)
	messages[6].Blocks[1] = use
	return messages
}

func lines(t *testing.T, messages []tree.Message, of transcript.Origin) []byte {
	t.Helper()
	data, err := transcript.Encode(messages, of)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func read(t *testing.T, data []byte) *transcript.History {
	t.Helper()
	h, err := transcript.Decode(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return h
}

// TestLinesComeBack: written, read and written again they are the same to the byte.
func TestLinesComeBack(t *testing.T) {
	t.Parallel()
	for _, of := range []transcript.Origin{{}, {Sidechain: true, Agent: "0190"}} {
		first := lines(t, everything(), of)
		h := read(t, first)
		if second := lines(t, h.Messages, of); !bytes.Equal(first, second) {
			t.Errorf("first\n%s\nthen\n%s", first, second)
		}
		if len(h.Notes) > 0 {
			t.Errorf("notes: %q", h.Notes)
		}
		if got, want := shape(h.Messages), shape(everything()); got != want {
			t.Errorf("%s came back as %s", want, got)
		}
		if h.Messages[5].UpTo != 4 || !reflect.DeepEqual(h.Messages[0].Blocks, everything()[0].Blocks) || h.Messages[3].Usage.Input != 40 {
			t.Errorf("came back as %+v", h.Messages)
		}
		mayBegin(t, h.Messages)
	}
}

// mayBegin lets a session begin with a history.
func mayBegin(t *testing.T, history []tree.Message) {
	t.Helper()
	ids := byte(0)
	env := tree.Env{Now: time.Unix(1, 0), NewID: func() [16]byte { ids++; return [16]byte{2, ids} }}
	_, err := tree.Decide(tree.NewView(nil), env, tree.CreateSession{
		ID: tree.SessionID{1}, Agent: &tree.Agent{Name: "a", Mode: tree.ModePrimary}, Limits: tree.DefaultLimits(), History: history,
	})
	if err != nil && !errors.Is(err, tree.ErrTooLarge) {
		t.Errorf("no session can begin with %s: %v", shape(history), err)
	}
}

// TestOtherTranscripts reads what agents inside one process have kept.
func TestOtherTranscripts(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(paths) == 0 {
		t.Fatalf("looking for transcripts: %v, %v", paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		h := read(t, data)
		mayBegin(t, h.Messages)
		got := append(lines(t, h.Messages, transcript.Origin{}), strings.Join(h.Notes, "\n")+"\n"...)
		golden := strings.TrimSuffix(path, ".jsonl") + ".golden"
		if *update {
			if err := os.WriteFile(golden, got, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is read as\n%s\nnot as\n%s (%v)", path, got, want, err)
		}
	}
}

func TestWrongLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "has no message",
		"\n\n":                                 "has no message",
		`{"type":"summary"}`:                   "has no message",
		"\n" + `{"role":"user","content":"a"}`: `has no message: line 2 has neither a type nor a uuid that make it one; expected lines such as {"type":"user",`,
		"{\"type\":\"progress\"}\nnot json":    "line 2 of the transcript",
		"[]":                                   "line 1 of the transcript",
		`{"type":"user","uuid":"a"}`:           "expected a message",
		`{"type":"user","message":{}}`:         "expected a uuid",
		`{"type":"user","uuid":7}`:             "line 1 of the transcript",
		`{"type":"user","uuid":"a","message":{"content":7}}`:                      "expected content",
		`{"type":"user","uuid":"a","timestamp":"noon","message":{"content":"x"}}`: "line 1 of the transcript",
		`{"type":"user","uuid":"a","parentUuid":"a","message":{"content":"x"}}`:   "comes after itself",
		`{"type":"user","uuid":"a","parentUuid":"b","message":{"content":"x"}}` + "\n" +
			`{"type":"progress","uuid":"b","parentUuid":"a"}`: "comes after itself",
	} {
		_, err := transcript.Decode([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, tree.ErrBadInput) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := transcript.Decode(make([]byte, transcript.MaxEncodedBytes+1)); !errors.Is(err, tree.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

// FuzzRead reads anything; a session can begin with whatever is read, and it is
// the same when it is written and read again.
func FuzzRead(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	whole, err := transcript.Encode(everything(), transcript.Origin{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := transcript.Decode(data)
		if err != nil {
			return
		}
		for i := range h.Messages {
			h.Messages[i].ID = tree.MessageID{3, byte(i >> 8), byte(i)}
			if u := h.Messages[i].Usage; min(u.Input, u.Output, u.CacheRead, u.CacheWrite) < 0 {
				return // refused by the core
			}
			if y := h.Messages[i].CreatedAt.UTC().Year(); y < 1 || y > 9999 {
				return // not in this world
			}
		}
		mayBegin(t, h.Messages)
		first, err := transcript.Encode(h.Messages, transcript.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		if second := lines(t, read(t, first).Messages, transcript.Origin{}); !bytes.Equal(first, second) {
			t.Errorf("first\n%s\nthen\n%s", first, second)
		}
	})
}

// TestLinesMayBeginWithAByteOrderMark, with which some editors begin a file.
func TestLinesMayBeginWithAByteOrderMark(t *testing.T) {
	t.Parallel()
	const lines = `{"uuid":"a","type":"user","message":{"role":"user","content":"hello"}}`
	history, err := transcript.Decode([]byte("\ufeff" + lines))
	if err != nil || len(history.Messages) != 1 {
		t.Errorf("%+v, %v", history, err)
	}
}

// TestSourcesOfAttachments: the text of a document may be written as it is. An attachment whose data
// are elsewhere, without a URL, is left out.
func TestSourcesOfAttachments(t *testing.T) {
	t.Parallel()
	text := func(data string) tree.Attachment {
		return tree.Attachment{Kind: tree.AttachmentDocument, MediaType: "text/plain", Name: "n", Data: []byte(data)}
	}
	for source, want := range map[string][]tree.Block{
		`{"type":"text","media_type":"text/plain","data":"What it says: grüße."}`: {text("What it says: grüße.")},
		`{"type":"text","data":"Hello123"}`:                                       {text("Hello123")},
		`{"type":"base64","media_type":"text/plain","data":"SGk="}`:               {text("Hi")},
		`{"media_type":"text/plain","data":"SGk="}`:                               {text("Hi")},
		`{"type":"url","url":"https://example.com/a.pdf"}`:                        {tree.Attachment{Kind: tree.AttachmentDocument, Name: "n", URL: "https://example.com/a.pdf"}},
		`{"type":"file","file_id":"file_1"}`:                                      nil,
		`{"type":"content","content":[{"type":"text","text":"x"}]}`:               nil,
	} {
		h := read(t, []byte(`{"type":"user","uuid":"a","message":{"content":[{"type":"text","text":"Read it."},{"type":"document","title":"n","source":`+source+`}]}}`))
		if got := h.Messages[0].Blocks[1:]; len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v", source, got)
		}
		if (len(h.Notes) == 0) != (want != nil) {
			t.Errorf("%s: notes %q", source, h.Notes)
		}
		first := lines(t, h.Messages, transcript.Origin{})
		if second := lines(t, read(t, first).Messages, transcript.Origin{}); !bytes.Equal(first, second) {
			t.Errorf("%s is written as\n%s\nthen\n%s", source, first, second)
		}
	}
}

package transcript_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// conversation makes messages of words: "u" is a user's, "a" an assistant's, "cN"
// calls N tools, "t" their results, "sN" a summary of what is up to N. The first
// has the ordinal from.
func conversation(from int, words string) []tree.Message {
	var messages []tree.Message
	calls := 0
	for i, w := range strings.Fields(words) {
		n := from + i
		m := tree.Message{
			ID: tree.MessageID{1, byte(n)}, Ordinal: n, CreatedAt: time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC),
			Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: fmt.Sprint(w, n)}},
		}
		switch w[0] {
		case 'a', 'c':
			m.Role, m.Usage, m.Model, m.Stop = tree.RoleAssistant, tree.Usage{Input: int64(10 * n)}, "m", tree.StopEndTurn
			calls = int(w[len(w)-1] - '0')
			for c := range max(0, calls) {
				if w[0] == 'c' {
					m.Blocks = append(m.Blocks, tree.ToolUse{ProviderID: "same", Name: fmt.Sprint("tool", c), Input: json.RawMessage(`{"n":1}`)})
				}
			}
		case 't':
			m.Role, m.Blocks = tree.RoleTool, nil
			for c := range calls {
				m.Blocks = append(m.Blocks, tree.ToolResult{Block: c + 1, ProviderID: "same", Text: fmt.Sprint("result ", c)})
			}
		case 's':
			_, err := fmt.Sscan(w[1:], &m.UpTo)
			if err != nil {
				panic(err)
			}
			m.Usage, m.Model, m.Stop = tree.Usage{Input: 7}, "m", tree.StopEndTurn
		}
		messages = append(messages, m)
	}
	return messages
}

// shape gives each message in a few letters: its ordinal, who speaks, and its calls.
func shape(messages []tree.Message) string {
	var words []string
	for _, m := range messages {
		w := fmt.Sprint(m.Ordinal) + map[tree.Role]string{tree.RoleUser: "u", tree.RoleAssistant: "a", tree.RoleTool: "t"}[m.Role]
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case tree.ToolUse:
				w += ":" + b.Name
			case tree.ToolResult:
				w += fmt.Sprint(":", b.Block)
			}
		}
		if strings.Contains(fmt.Sprint(m.Blocks), "You are a sub-agent") {
			w += "*"
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func TestInherited(t *testing.T) {
	t.Parallel()
	root := transcript.Link{Messages: conversation(1, "u c1 t c3 t a u")}
	for name, test := range map[string]struct {
		chain []transcript.Link
		want  string
	}{
		"nothing":            {[]transcript.Link{root}, ""},
		"apart":              {[]transcript.Link{{Base: tree.Base{Kind: tree.BaseApart, Message: 3}}, root}, ""},
		"a branch":           {[]transcript.Link{{Base: tree.Base{Kind: tree.BaseBranch, Message: 3}}, root}, "1u 2a:tool0 3t:1"},
		"a branch of all":    {[]transcript.Link{{Base: tree.Base{Kind: tree.BaseBranch, Message: 7}}, root}, "1u 2a:tool0 3t:1 4a:tool0:tool1:tool2 5t:1:2:3 6a 7u"},
		"a fork":             {[]transcript.Link{{Base: tree.Base{Kind: tree.BaseFork, Message: 3}}, root}, "1u 2a:tool0 3t:1 4u*"},
		"a fork of nothing":  {[]transcript.Link{{Base: tree.Base{Kind: tree.BaseFork}}, root}, "1u*"},
		"a fork by the call": {[]transcript.Link{{Base: tree.Base{Kind: tree.BaseCall, Message: 4, Block: 2}}, root}, "1u 2a:tool0 3t:1 4a:tool1 5t:1*"},
		"a fork of a fork": {[]transcript.Link{
			{Base: tree.Base{Kind: tree.BaseCall, Message: 7, Block: 1}},
			{Base: tree.Base{Kind: tree.BaseCall, Message: 4, Block: 1}, Messages: conversation(6, "u c2 t")},
			root,
		}, "1u 2a:tool0 3t:1 4a:tool0 5t:1* 6u 7a:tool0 8t:1*"},
		"a branch of a branch, before its own": {[]transcript.Link{
			{Base: tree.Base{Kind: tree.BaseBranch, Message: 3}},
			{Base: tree.Base{Kind: tree.BaseBranch, Message: 3}, Messages: conversation(4, "a u")},
			root,
		}, "1u 2a:tool0 3t:1"},
	} {
		if got := shape(transcript.Inherited(test.chain)); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestSeen(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"u a u":              "1u 2a 3u",
		"u a u s2 a":         "4u 3u 5a",
		"u c1 t s1 a":        "4u 2a:tool0 3t:1 5a",
		"u c1 t s3 a":        "4u 5a",
		"u c1 t s2 a":        "4u 5a", // a result goes with its call
		"u a u s2 a u s5 a":  "7u 6u 8a",
		"u a u s2 a u s4 a":  "7u 5a 6u 8a",
		"u a s2 u s3 c1 t a": "5u 4u 6a:tool0 7t:1 8a",
	} {
		seen := transcript.Conversation([]transcript.Link{{Messages: conversation(1, words)}})
		if got := shape(seen); got != want {
			t.Errorf("of %q is seen %q, want %q", words, got, want)
		}
	}
	// A branch from before a summary sees what it stands for, one from after it does not.
	root := transcript.Link{Messages: conversation(1, "u a u s2 a u")}
	for at, want := range map[int]string{3: "1u 2a 3u", 5: "4u 3u 5a"} {
		branch := transcript.Link{Base: tree.Base{Kind: tree.BaseBranch, Message: at}}
		if got := shape(transcript.Conversation([]transcript.Link{branch, root})); got != want {
			t.Errorf("from message %d a branch sees %q, want %q", at, got, want)
		}
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]struct {
		older string
		upTo  int
	}{
		"":             {"", 0},
		"u":            {"", 0},
		"u a":          {"1u 2a", 2},
		"u a u u":      {"1u 2a", 2},
		"u c1 t":       {"1u", 1},
		"u c1 t u":     {"1u", 1},
		"u c1 t u u":   {"1u", 1},
		"u c1 t u a u": {"1u 2a:tool0 3t:1 4u 5a", 5},
		"u c1 t c2 t":  {"1u 2a:tool0 3t:1", 3},
		"u a u s2":     {"", 0}, // nothing was said since
		"u a u s2 a":   {"4u 3u 5a", 5},
		"u a u s2 a u": {"4u 3u 5a", 5},
		"u c1 t s1 u":  {"", 0}, // nobody has answered what is left
		"u c1":         {"", 0}, // its calls are open
	} {
		seen := transcript.Visible(conversation(1, words))
		older, upTo := transcript.OlderPart(seen)
		if shape(older) != want.older || upTo != want.upTo {
			t.Errorf("%q: the older part is %q up to %d, want %q up to %d", words, shape(older), upTo, want.older, want.upTo)
		}
	}
}

// TestSize: what has come since the last answer counts too, a token for four bytes.
func TestSize(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word", 1000)
	for words, want := range map[string]int64{
		"": 0, "u": 1000, "u a": 20, "u c1 t": 1020, "u c1 t u": 2020, "u c1 t a": 40, "u a s2 u": 1001, "u a u s2 a": 50,
	} {
		messages := conversation(1, words)
		for i := range messages {
			switch m := &messages[i]; {
			case m.Role == tree.RoleTool:
				m.Blocks = []tree.Block{tree.ToolResult{Text: long}}
			case m.Role == tree.RoleUser && m.UpTo == 0:
				m.Blocks = []tree.Block{tree.Text{Text: long}}
			case m.UpTo > 0:
				m.Blocks = []tree.Block{tree.Text{Text: "word"}}
			}
		}
		if got := transcript.EstimateTokens(transcript.Visible(messages)); got != want {
			t.Errorf("%q has %d tokens, want %d", words, got, want)
		}
	}
}

// TestSizeWithoutFigures: where a server gives no usage, and where the usage is of a time before the
// last summary, the text counts that a model is sent.
func TestSizeWithoutFigures(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word", 1000)
	for name, c := range map[string]struct {
		words   string
		figures []int // the answers with usage
		want    int64
	}{
		"none at all":           {"u a u a u", nil, 5000},
		"once":                  {"u a u a u", []int{2}, 20 + 3000},
		"none since a summary":  {"u a u s2 a u", nil, 4000},
		"a summary's own count": {"u c1 t s1 u", []int{2}, 4000},
		"asked for again":       {"u c1 t s1 u a u", []int{2, 6}, 60 + 1000},
	} {
		messages := conversation(1, c.words)
		for i := range messages {
			m := &messages[i]
			if m.Role == tree.RoleAssistant && !slices.Contains(c.figures, m.Ordinal) {
				m.Usage = tree.Usage{}
			}
			m.Blocks = []tree.Block{tree.Text{Text: long}, tree.Thinking{Text: long}}
		}
		if got := transcript.EstimateTokens(transcript.Visible(messages)); got != c.want {
			t.Errorf("%s: %q has %d tokens, want %d", name, c.words, got, c.want)
		}
	}
}

// TestSizeOfAttachments: an image counts as what models look at, whatever its bytes; a document by
// its pages, and plain text as text.
func TestSizeOfAttachments(t *testing.T) {
	t.Parallel()
	for want, a := range map[int64]tree.Attachment{
		1600: {Kind: tree.AttachmentImage, MediaType: "image/png", Data: make([]byte, 1<<20)},
		6000: {Kind: tree.AttachmentDocument, MediaType: "application/pdf", Data: make([]byte, 120_000)},
		1000: {Kind: tree.AttachmentDocument, MediaType: "text/plain", Data: make([]byte, 4000)},
	} {
		if got := transcript.EstimateTokens([]tree.Message{{Ordinal: 1, Role: tree.RoleUser, Blocks: []tree.Block{a}}}); got != want {
			t.Errorf("%s has %d tokens, want %d", a.MediaType, got, want)
		}
	}
}

// TestCompositionChangesNoMessage holds the inputs to what they were.
func TestCompositionChangesNoMessage(t *testing.T) {
	t.Parallel()
	root := transcript.Link{Messages: conversation(1, "u c3 t s2 a")}
	before := conversation(1, "u c3 t s2 a")
	for block := range 3 {
		transcript.Conversation([]transcript.Link{
			{Base: tree.Base{Kind: tree.BaseCall, Message: 2, Block: block + 1}, Messages: conversation(4, "u a")}, root,
		})
	}
	if !reflect.DeepEqual(root.Messages, before) {
		t.Errorf("the base was changed to %+v", root.Messages)
	}
}

package transcript_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// spoken is a line whose message has parts.
func spoken(id, parent, speaker string, parts ...string) string {
	return fmt.Sprintf(`{"uuid":%q,"parentUuid":%q,"type":%q,"message":{"content":[%s]}}`+"\n",
		id, parent, speaker, strings.Join(parts, ","))
}

// TestManyNotes: however many kinds of parts are left out, the notes stay a short list.
func TestManyNotes(t *testing.T) {
	t.Parallel()
	for kinds, want := range map[int]int{3: 3, 100: 100, 101: 101, 1500: 101} {
		var parts []string
		for i := range kinds {
			parts = append(parts, fmt.Sprintf(`{"type":"kind%d"}`, i))
		}
		h := read(t, []byte(spoken("a", "", "user", `{"type":"text","text":"x"}`)+
			spoken("b", "a", "assistant", parts...)+
			spoken("c", "b", "user", append(parts, `{"type":"text","text":"y"}`)...)))
		last := h.Notes[len(h.Notes)-1]
		if len(h.Notes) != want || strings.Contains(last, "more") != (want > 100) {
			t.Errorf("of %d kinds there are %d notes, the last %q", kinds, len(h.Notes), last)
		}
	}
}

// TestTooManyParts: a line with more parts than a message may have is refused while it is read.
func TestTooManyParts(t *testing.T) {
	t.Parallel()
	parts := func(n int) []string {
		return strings.Split(strings.Repeat(`{"type":"text","text":"x"} `, n-1)+`{"type":"text","text":"x"}`, " ")
	}
	if h := read(t, []byte(spoken("a", "", "user", parts(tree.MaxBlocks)...))); len(h.Messages[0].Blocks) != tree.MaxBlocks {
		t.Errorf("%d parts of %d were read", len(h.Messages[0].Blocks), tree.MaxBlocks)
	}
	_, err := transcript.Decode([]byte("\n" + spoken("a", "", "user", parts(tree.MaxBlocks+1)...)))
	if !errors.Is(err, tree.ErrTooLarge) || !strings.Contains(err.Error(), "line 2 of the transcript") {
		t.Errorf("more parts than a message may have: %v", err)
	}
}

// TestResultsBeside: each result beside the chain belongs to one call, also where calls share an id.
func TestResultsBeside(t *testing.T) {
	t.Parallel()
	call := `{"type":"tool_use","id":"same","name":"ls"}`
	result := func(text string) string {
		return fmt.Sprintf(`{"type":"tool_result","tool_use_id":"same","content":%q}`, text)
	}
	h := read(t, []byte(spoken("a", "", "user", `{"type":"text","text":"x"}`)+
		spoken("b", "a", "assistant", call, call, call)+
		spoken("c", "b", "user", result("one"))+
		spoken("d", "b", "user", result("two"))+
		spoken("e", "b", "user", `{"type":"text","text":"y"}`)))
	var got []string
	for _, b := range h.Messages[2].Blocks {
		text, _, _ := strings.Cut(b.(tree.ToolResult).Text, ":")
		got = append(got, text)
	}
	if fmt.Sprint(got) != "[one two not finished]" {
		t.Errorf("the results are %q", got)
	}
}

// TestManyRepliesToOneLine: a transcript in which all lines follow the same one is read in time that
// grows with its length, and not with the square of it. Replies with text are what to compare with:
// no others are looked at for them.
func TestManyRepliesToOneLine(t *testing.T) {
	t.Parallel()
	took := func(content string) time.Duration {
		var lines strings.Builder
		lines.WriteString(`{"uuid":"a","type":"user","message":{"content":"x"}}` + "\n" +
			`{"uuid":"b","parentUuid":"a","type":"assistant","message":{"id":"m","content":"y"}}` + "\n")
		for i := range 80_000 {
			fmt.Fprintf(&lines, `{"uuid":"%d","parentUuid":"b","type":"user","message":{"content":%s}}`+"\n", i, content)
		}
		began := time.Now()
		read(t, []byte(lines.String()))
		return time.Since(began)
	}
	if text, empty := took(`"z"`), took(`[]`); empty > 10*text+time.Second {
		t.Errorf("reading replies without text took %s, and with text %s", empty, text)
	}
}

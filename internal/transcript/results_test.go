package transcript_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

func textPart(text string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, text) }
func callPart(id string) string   { return fmt.Sprintf(`{"type":"tool_use","id":%q,"name":"ls"}`, id) }
func resultPart(id string) string {
	return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":"of %s"}`, id, id)
}

// partOf is a line with a part of an answer that spans several lines.
func partOf(answer, id, parent string, parts ...string) string {
	return strings.Replace(spoken(id, parent, "assistant", parts...), `"message":{`, fmt.Sprintf(`"message":{"id":%q,`, answer), 1)
}

// told is the texts, calls and results of messages, in short.
func told(messages []tree.Message) string {
	var all []string
	for _, m := range messages {
		var parts []string
		for _, b := range m.Blocks {
			switch b := b.(type) {
			case tree.Text:
				parts = append(parts, b.Text)
			case tree.ToolUse:
				parts = append(parts, "call "+b.ProviderID)
			case tree.ToolResult:
				parts = append(parts, b.Text)
			}
		}
		all = append(all, strings.Join(parts, ", "))
	}
	return strings.Join(all, "; ")
}

// An answer of several lines is one message, also if the newest line of the file is a result that is
// attached to the first of them.
func TestATranscriptMayEndWithResults(t *testing.T) {
	t.Parallel()
	answer := spoken("a", "", "user", textPart("q")) +
		partOf("m", "b", "a", callPart("x")) + partOf("m", "c", "b", callPart("y")) + partOf("m", "d", "c", callPart("z"))
	const want = "q; call x, call y, call z; of x, of y, of z"
	ofX, ofY, ofZ := spoken("e", "b", "user", resultPart("x")), spoken("f", "c", "user", resultPart("y")), spoken("g", "d", "user", resultPart("z"))
	for _, results := range []string{ofX + ofY + ofZ, ofZ + ofY + ofX, ofY + ofZ + ofX} {
		if h := read(t, []byte(answer+results)); told(h.Messages) != want || len(h.Notes) > 0 {
			t.Errorf("read as %s, with the notes %q", told(h.Messages), h.Notes)
		}
	}
	empty := spoken("a", "", "user", textPart("q")) + partOf("m", "b", "a", callPart("x")) + partOf("m", "c", "b")
	if got := told(read(t, []byte(empty)).Messages); !strings.HasPrefix(got, "q; call x; not finished") {
		t.Errorf("read as %s", got)
	}
	// A person who goes on from there has left the rest behind.
	h := read(t, []byte(answer+ofZ+ofX+spoken("h", "e", "user", textPart("p"))))
	if got := told(h.Messages); got != "q; call x; of x; p" {
		t.Errorf("read as %s", got)
	}
}

// What a person or a hook said between the results of parallel calls comes after all of them.
func TestResultsMayComeAfterText(t *testing.T) {
	t.Parallel()
	h := read(t, []byte(spoken("a", "", "user", textPart("q"))+
		spoken("b", "a", "assistant", callPart("x"), callPart("y"))+
		spoken("c", "b", "user", resultPart("x"))+spoken("d", "c", "user", textPart("p"))+spoken("e", "d", "user", textPart("r"))+
		spoken("f", "e", "user", resultPart("y"))+
		spoken("g", "f", "assistant", textPart("done"))+spoken("h", "g", "user", textPart("s"))))
	if got := told(h.Messages); got != "q; call x, call y; of x, of y; p; r; done; s" || len(h.Notes) > 0 {
		t.Errorf("read as %s, with the notes %q", got, h.Notes)
	}
	// Lines of one answer with a text between them are two messages.
	h = read(t, []byte(spoken("a", "", "user", textPart("q"))+partOf("m", "b", "a", callPart("x"))+
		spoken("c", "b", "user", textPart("p"))+partOf("m", "d", "c", callPart("y"))+spoken("e", "d", "user", resultPart("y"))))
	if got := told(h.Messages); got != "q; call x; not finished: the transcript ends before the result came; p; call y; of y" {
		t.Errorf("read as %s", got)
	}
}

package storetest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// large is text that is worth packing.
func large(about string) string {
	var text strings.Builder
	for n := 0; text.Len() < 5<<10; n++ {
		fmt.Fprintf(&text, "%s, line %d of what is said\n", about, n)
	}
	return text.String()
}

// largeTexts: large texts come back byte for byte, whatever they begin with, and whether or not all
// replicas could read packed rows when they were written.
func largeTexts(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, root := session(1), b.create(1, large("the task"))
	w := b.claim(id, root)
	results := []string{large("a file"), "\x00" + large("bytes"), large("bytes")[:5000] + "\xff\xfe", "(packed)", ""}
	tools := make([]string, len(results))
	for n := range tools {
		tools[n] = "read"
	}
	for turn := range 3 {
		if turn == 1 {
			if _, err := b.Heartbeat(t.Context(), replica, 1, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		w.calls(tools...)
		for n, text := range results {
			w.closes(1+n, text, false)
		}
	}
	w.answers(large("the answer"))
	check := func() {
		t.Helper()
		messages := must[[]tree.Message](t)(b.Transcript(t.Context(), id, root, 0, 0))
		eq(t, "how many messages there are", len(messages), 8)
		eq(t, "what was asked", messages[0].Text(), large("the task"))
		for turn := range 3 {
			var texts []string
			for _, block := range messages[2+2*turn].Blocks {
				texts = append(texts, block.(tree.ToolResult).Text)
			}
			if !reflect.DeepEqual(texts, results) {
				t.Errorf("the results of turn %d are %.80q", turn, texts)
			}
		}
		outcome := must[tree.Outcome](t)(b.Outcome(t.Context(), id, tree.ChildRun{Task: root, Run: 1}))
		eq(t, "the answer", outcome.Answer, large("the answer"))
		seen := must[*store.Conversation](t)(b.Conversation(t.Context(), "", id, root))
		if !reflect.DeepEqual(seen.Messages, messages) {
			t.Errorf("the conversation is %.1000v", seen.Messages)
		}
	}
	check()
	b.restart()
	check()
}

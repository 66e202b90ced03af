package assembly_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
)

// flood is a tool whose result is huge.
type flood struct{ text string }

func (flood) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "flood", Description: "Says a lot.", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (flood) Effect() tool.Effect { return tool.EffectNone }

func (flood) Guard() tool.Guard { return tool.Guard{Access: policy.AccessRead} }

func (f flood) Call(context.Context, tool.Call) tool.Outcome { return tool.Done{Text: f.text} }

// TestHugeResultIsBounded has a tool say 64 MiB: what is stored is bounded and names the
// file that has all of it, and the task goes on and ends.
func TestHugeResultIsBounded(t *testing.T) {
	t.Parallel()
	const huge, most = 64 << 20, 1 << 20
	line := "a line, caf\u00e9 and more of it\n"
	text := "first\n" + strings.Repeat(line, huge/len(line)-1) + "last\n"
	a, dir := takeApart(t), t.TempDir()
	_, addr := a.orchestrator()
	a.worker(addr, `
steps:
  - when: {turn: 1}
    calls: [{tool: flood}, {tool: flood}]
  - text: '{{len (results "flood")}} floods'
`, func(w *assembly.Worker) { w.Workspace, w.Tools = dir, []tool.Tool{flood{text}} })
	c := a.client(addr)
	session := c.create("go").GetId()
	if got := c.doneWith(session); got != "2 floods" {
		t.Errorf("the root says %q", got)
	}
	results := 0
	for _, m := range c.transcript(session, c.root(session)) {
		for _, b := range m.GetBlocks() {
			r := b.GetToolResult()
			if r == nil {
				continue
			}
			results++
			said := r.GetText()
			if len(said) > most || !strings.HasPrefix(said, "first\n") || !strings.HasSuffix(said, "last\n") {
				t.Errorf("a result of %d bytes was stored", len(said))
			}
			named := regexp.MustCompile(`the whole is in the file (\S+)\]`).FindStringSubmatch(said)
			if named == nil {
				t.Fatal("it names no file")
			}
			kept, err := os.ReadFile(filepath.Join(dir, named[1]))
			if err != nil || string(kept) != text {
				t.Errorf("%d bytes are kept of %d, %v", len(kept), len(text), err)
			}
		}
	}
	if results != 2 {
		t.Errorf("%d results, want 2", results)
	}
	c.sound()
	t.Logf("a result of %d bytes: at most %d stored, all of it kept", len(text), most)
}

// TestATranscriptThatCannotBeSent: a conversation with a message that is larger than a response may
// be ends the run that needs it, which otherwise would be handed to one stream after another for
// ever.
func TestATranscriptThatCannotBeSent(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.limits.PartBytes = 14 << 20
	_, addr := a.orchestrator()
	a.worker(addr, `
steps:
  - when: {turn: 1}
    calls: [{tool: flood}, {tool: flood}, {tool: flood}, {tool: flood}, {tool: flood}]
  - text: done
`, func(w *assembly.Worker) { w.Tools = []tool.Tool{flood{strings.Repeat("x", a.limits.PartBytes)}} })
	c := a.client(addr)
	session := c.create("go").GetId()
	if got := c.doneWith(session); got != "done" {
		t.Errorf("the root says %q", got)
	}
	if _, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: session, Message: &pb.UserMessage{Text: "again"}}); err != nil {
		t.Fatal(err)
	}
	if root := c.wait(session, ""); root.GetReason() != pb.Reason_REASON_POISONED {
		t.Errorf("the root ended as %s, %s: %s", root.GetState(), root.GetReason(), root.GetDetail())
	}
	c.sound()
}

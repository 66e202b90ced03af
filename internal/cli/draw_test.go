package cli

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

var update = flag.Bool("update", false, "write what comes out into the golden files")

// Each file of testdata/draw tells a story, and what is drawn of it. The section
// "events" has a line for each step:
//
//	TIME TASK open AGENT TITLE        TIME TASK start PARENT AGENT DESCRIPTION
//	TIME TASK take                    TIME TASK calls NUMBER TOKENS
//	TIME TASK does ACTIVITY           TIME TASK writes TEXT (a delta)
//	TIME TASK fails TEXT (of a call of its model, which is made again)
//	TIME TASK park MET/TOTAL          TIME TASK joined (a child's end)
//	TIME TASK back (to the background) TIME TASK closed (a call, without a child's end)
//	TIME TASK denied COMMAND           TIME TASK sums TOKENS (a summary of older messages)
//	TIME TASK news (of a background child's end, which waits)
//	TIME TASK branch BASE AGENT DESCRIPTION    TIME TASK selected (it gets the messages)
//	TIME TASK ready [lost]            TIME TASK end STATE TOOLS TOKENS [REASON DETAIL]
//
// A section "80x10 3s [ascii] [ids]" is what is drawn on so many cells and lines at
// that time (0x0: no bound), "plain" what is told of it in lines.
func TestDraw(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/draw/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			drawFile(t, file)
		})
	}
}

func drawFile(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	story := parseStory(t, string(archive.Files[0].Data))
	changed := false
	for i, section := range archive.Files[1:] {
		var got string
		if section.Name == "plain" {
			got = told(t, story)
		} else {
			got = drawn(t, story, section.Name)
		}
		if got == string(section.Data) {
			continue
		}
		changed = true
		if !*update {
			t.Errorf("%s: got\n%s\nwant\n%s", section.Name, got, section.Data)
		}
		archive.Files[i+1].Data = []byte(got)
	}
	if changed && *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// drawn draws a story as a section's name says.
func drawn(t *testing.T, story []moment, name string) string {
	t.Helper()
	fields := strings.Fields(name)
	var c canvas
	if _, err := fmt.Sscanf(fields[0], "%dx%d", &c.width, &c.height); err != nil {
		t.Fatalf("section %q: %v", name, err)
	}
	at := parseAt(t, fields[1])
	c.theme, c.now = newTheme(!slices.Contains(fields, "ascii"), false), zero.Add(at)
	c.ids = slices.Contains(fields, "ids")
	f := newForest()
	for _, s := range story {
		if s.at <= at {
			f.applyStep(s.step)
		}
	}
	lines := f.draw(c)
	if c.height > 0 && len(lines) > c.height {
		t.Errorf("section %q has %d lines", name, len(lines))
	}
	var b strings.Builder
	for _, line := range lines {
		if w := ansi.StringWidth(line); c.width > 0 && w > c.width {
			t.Errorf("section %q: a line is %d cells wide: %q", name, w, line)
		}
		b.WriteString(line + "\n")
	}
	b.WriteString(f.summary(c.now, c.theme.separator) + "\n")
	return b.String()
}

// told tells a story in lines.
func told(t *testing.T, story []moment) string {
	t.Helper()
	var out bytes.Buffer
	p := &plainView{out: &out, theme: newTheme(true, false), forest: newForest()}
	for _, s := range story {
		if err := p.step(s.step); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// zero is when stories begin.
var zero = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// moment is a step of a story and when it happens.
type moment struct {
	at   time.Duration
	step *pb.WatchSessionResponse
}

// TestDrawFits checks of any forest that its drawing fits, and that no task is
// forgotten or counted twice.
func TestDrawFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newForest()
		state := rapid.SampledFrom(slices.Sorted(maps.Keys(pb.TaskState_name)))
		name := rapid.StringOfN(rapid.RuneFrom([]rune("ab 日é\x1b\n\u202e")), 0, 40, -1)
		for i := range rapid.IntRange(1, 60).Draw(t, "tasks") {
			n := f.find(strconv.Itoa(i))
			n.agent, n.description = name.Draw(t, "agent"), name.Draw(t, "description")
			n.state = pb.TaskState(state.Draw(t, "state"))
			n.tools, n.start, n.activity = int64(i), zero, name.Draw(t, "activity")
			n.denied = rapid.Int64Range(0, n.tools).Draw(t, "denied")
			f.attach(n, strconv.Itoa(rapid.IntRange(0, max(0, i-1)).Draw(t, "parent")))
		}
		c := canvas{
			theme: newTheme(rapid.Bool().Draw(t, "unicode"), rapid.Bool().Draw(t, "colour")),
			width: rapid.IntRange(1, 130).Draw(t, "width"), height: rapid.IntRange(1, 70).Draw(t, "height"),
			now: zero.Add(time.Hour), ids: rapid.Bool().Draw(t, "ids"),
		}
		lines := f.draw(c)
		if len(lines) > c.height {
			t.Fatalf("%d lines", len(lines))
		}
		for _, line := range lines {
			if w := ansi.StringWidth(line); w > c.width {
				t.Fatalf("a line is %d cells wide: %q", w, line)
			}
		}
		seen := 0
		for _, r := range f.fold(c.height) {
			seen += r.hidden.total()
			if r.node != nil {
				seen++
			}
		}
		if seen != len(f.order) {
			t.Fatalf("%d of %d tasks are shown or counted", seen, len(f.order))
		}
	})
}

// TestLargeFigures fit into their columns, with a blank before them.
func TestLargeFigures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tools, tokens int64
		want          string
	}{
		{999, 99_900_000, "  2h03m 999 tools 99.9M tok"},
		{1000, 100_000_000, "  2h03m  1k tools  100M tok"},
		{98_765, 4_567_800_000, "  2h03m 98k tools 4567M tok"},
	} {
		f := newForest()
		n := f.find("r")
		f.attach(n, "")
		n.description, n.start, n.tools, n.spent.tokens = strings.Repeat("long ", 20), zero, c.tools, c.tokens
		line := f.draw(canvas{theme: newTheme(false, false), width: minToolsWidth, now: zero.Add(123 * time.Minute)})[0]
		if ansi.StringWidth(line) > minToolsWidth || !strings.HasSuffix(line, c.want) {
			t.Errorf("%d tools, %d tokens: %q", c.tools, c.tokens, line)
		}
	}
}

func parseAt(t *testing.T, s string) time.Duration {
	t.Helper()
	at, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func parseStory(t *testing.T, text string) []moment {
	t.Helper()
	var story []moment
	seq := int64(0)
	runs := map[string]int32{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		at, task, verb, args := parseAt(t, fields[0]), fields[1], fields[2], fields[3:]
		if verb == "start" {
			runs[task]++
		}
		if verb == "writes" || verb == "fails" {
			d := &pb.Delta{TaskId: task, Run: runs[task], Text: rest(t, args, 0)}
			if verb == "fails" {
				d.Text, d.Thinking, d.Restart = "\n["+d.GetText()+"]\n", true, true
			}
			story = append(story, moment{at, &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Delta{Delta: d}}})
			continue
		}
		seq++
		e := &pb.Event{Seq: seq, Time: timestamppb.New(zero.Add(at)), TaskId: task, Run: runs[task]}
		parseKind(t, e, verb, args)
		story = append(story, moment{at, &pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: e}}})
	}
	return story
}

func parseKind(t *testing.T, e *pb.Event, verb string, args []string) {
	t.Helper()
	switch verb {
	case "open":
		e.Kind = &pb.Event_SessionOpened{SessionOpened: &pb.SessionOpened{Agent: args[0], Title: rest(t, args, 1)}}
	case "branch":
		b := &pb.BranchOpened{Base: &pb.Base{TaskId: args[0]}, Agent: args[1], Description: rest(t, args, 2)}
		e.Kind = &pb.Event_BranchOpened{BranchOpened: b}
	case "selected":
		e.Kind = &pb.Event_BranchSelected{BranchSelected: &pb.BranchSelected{}}
	case "start":
		s := &pb.TaskStarted{ParentId: strings.Trim(args[0], "-"), Agent: strings.TrimSuffix(args[1], "&"), Description: rest(t, args, 2)}
		s.Background = s.Agent != args[1]
		e.Kind = &pb.Event_Started{Started: s}
	case "take":
		e.Kind = &pb.Event_Dispatched{Dispatched: &pb.TaskDispatched{}}
	case "calls":
		m := &pb.MessageAppended{Role: pb.Role_ROLE_ASSISTANT, Usage: priced(number(t, args[1]))}
		m.Activity = rest(t, args, 2)
		for range number(t, args[0]) {
			m.Calls = append(m.Calls, &pb.OpenedCall{})
		}
		e.Kind = &pb.Event_Message{Message: m}
	case "sums":
		e.Kind = &pb.Event_Message{Message: &pb.MessageAppended{Role: pb.Role_ROLE_USER, SumsUpTo: 1, Usage: priced(number(t, args[0]))}}
	case "news":
		e.Kind = &pb.Event_Queued{Queued: &pb.MessageQueued{News: &pb.ChildRun{TaskId: "x", Run: 1}}}
	case "does":
		e.Kind = &pb.Event_Progress{Progress: &pb.TaskProgress{Activity: rest(t, args, 0)}}
	case "park":
		w := &pb.Wait{}
		if _, err := fmt.Sscanf(args[0], "%d/%d", &w.Met, &w.Total); err != nil {
			t.Fatal(err)
		}
		e.Kind = &pb.Event_Parked{Parked: &pb.TaskParked{Wait: w}}
	case "joined":
		e.Kind = &pb.Event_CallClosed{CallClosed: &pb.CallClosed{Child: &pb.ChildRun{TaskId: "x", Run: 1}}}
	case "back":
		e.Kind = &pb.Event_Backgrounded{Backgrounded: &pb.TaskBackgrounded{}}
	case "closed":
		e.Kind = &pb.Event_CallClosed{CallClosed: &pb.CallClosed{}}
	case "denied":
		e.Kind = denied(&pb.Denial{
			Cause: pb.DenialCause_DENIAL_CAUSE_PERMISSION, Tool: "bash", Argument: rest(t, args, 0), Detail: "a rule denies it",
		}).GetKind()
	case "ready":
		cause := pb.ReadyCause_READY_CAUSE_SATISFIED
		if len(args) > 0 {
			cause = pb.ReadyCause_READY_CAUSE_REDELIVERED
		}
		e.Kind = &pb.Event_Ready{Ready: &pb.TaskReady{Cause: cause}}
	case "end":
		r := &pb.TaskResult{
			State:    pb.TaskState(pb.TaskState_value["TASK_STATE_"+args[0]]),
			ToolUses: int32(number(t, args[1])), Usage: priced(number(t, args[2])),
		}
		if len(args) > 3 {
			r.Reason, r.Detail = pb.Reason(pb.Reason_value["REASON_"+args[3]]), rest(t, args, 4)
		}
		e.Kind = &pb.Event_Result{Result: r}
	default:
		t.Fatalf("unknown verb %q", verb)
	}
}

// rest is the words from the n-th on. What looks like an escape is one.
func rest(t *testing.T, words []string, n int) string {
	t.Helper()
	s, err := strconv.Unquote(`"` + strings.Join(words[min(n, len(words)):], " ") + `"`)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// priced is a usage at 25 dollars for a million tokens.
func priced(tokens int64) *pb.Usage {
	micros := 25 * tokens
	return &pb.Usage{OutputTokens: tokens, PricedTokens: tokens, CostMicros: &micros}
}

package cli

import (
	"os"
	"strings"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

func TestTranscript(t *testing.T) {
	t.Parallel()
	text := func(s string) *pb.Block {
		return &pb.Block{Kind: &pb.Block_Text{Text: &pb.TextBlock{Text: s}}}
	}
	conversation := []*pb.Message{
		{Ordinal: 1, Role: pb.Role_ROLE_USER, Blocks: []*pb.Block{text("Look at it.\nAll of it.")}},
		{Ordinal: 2, Role: pb.Role_ROLE_ASSISTANT, Model: "demo", Usage: &pb.Usage{InputTokens: 1200, OutputTokens: 34}, Blocks: []*pb.Block{
			{Kind: &pb.Block_Thinking{Thinking: &pb.ThinkingBlock{Text: "What is there?"}}},
			text("Let me see."),
			{Kind: &pb.Block_ToolUse{ToolUse: &pb.ToolUseBlock{Name: "ls", InputJson: `{"path": "` + strings.Repeat("long/", 60) + `"}`}}},
			{Kind: &pb.Block_ToolUse{ToolUse: &pb.ToolUseBlock{Name: "read", InputJson: `{"path": "a"}`}}},
		}},
		{Ordinal: 3, Role: pb.Role_ROLE_TOOL, Blocks: []*pb.Block{
			{Kind: &pb.Block_ToolResult{ToolResult: &pb.ToolResultBlock{Block: 2, Text: strings.Repeat("file\n", 30)}}},
			{Kind: &pb.Block_ToolResult{ToolResult: &pb.ToolResultBlock{Block: 3, Text: "\x1b[2Jno such file", IsError: true}}},
		}},
		{Ordinal: 4, Role: pb.Role_ROLE_USER, News: &pb.ChildRun{TaskId: "00000000-0000-7000-8000-0000deadbeef", Run: 1}, Blocks: []*pb.Block{text("done")}},
		{Ordinal: 5, Run: 2, Role: pb.Role_ROLE_ASSISTANT, StopReason: pb.StopReason_STOP_REASON_MAX_TOKENS, Blocks: []*pb.Block{text("It is")}},
		{Ordinal: 6, Role: pb.Role_ROLE_USER, SumsUpTo: 3, Model: "demo", Usage: &pb.Usage{InputTokens: 2500, OutputTokens: 60}, Blocks: []*pb.Block{text("It was a lot.")}},
		{Ordinal: 7, Role: pb.Role_ROLE_USER, SumsUpTo: 1, Blocks: []*pb.Block{text("From elsewhere.")}},
	}
	for name, full := range map[string]bool{"short": false, "full": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := &transcript{theme: newTheme(true, false), full: full}
			var lines []string
			for _, m := range conversation {
				lines = append(lines, reader.message(m)...)
			}
			golden(t, "testdata/transcript-"+name+".txt", strings.Join(lines, "\n"))
		})
	}
}

// golden compares with a file, or writes it with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

func TestJSONLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":              `{"text":"plain"}`,
		"two\nlines":         `{"text":"two\nlines"}`,
		"日本":                 `{"text":"日本"}`,
		"\u009b2J":           `{"text":"\u009b2J"}`,
		"\u202e\x7f":         `{"text":"\u202e\u007f"}`,
		"a\U000e0041":        `{"text":"a\udb40\udc41"}`,
		`back\slash "quote"`: `{"text":"back\\slash \"quote\""}`,
	} {
		got, err := jsonLine(&pb.TextBlock{Text: in})
		if err != nil || string(got) != want+"\n" {
			t.Errorf("jsonLine(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1.0k", 9949: "9.9k", 9950: "10k", 99_400: "99k",
		999_499: "999k", 999_500: "1.0M", 12_345_678: "12.3M",
	} {
		if got := countText(n); got != want {
			t.Errorf("countText(%d) = %q, want %q", n, got, want)
		}
	}
	for in, want := range map[string]string{
		"-1s": "0.0s", "0s": "0.0s", "990ms": "0.9s", "9.99s": "9.9s", "10s": "10s", "59.9s": "59s",
		"60s": "1m00s", "1h": "1h00m", "26h30m": "1d02h",
	} {
		if got := durationText(parseAt(t, in)); got != want {
			t.Errorf("durationText(%s) = %q, want %q", in, got, want)
		}
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type transcriptCommand struct {
	remote
	taskFlag
	Session string  `arg:"" help:"The session."`
	Task    *string `arg:"" optional:"" help:"The task; default: the root."`
	Full    bool    `env:"" help:"Show tool calls and their results in full."`

	Inherited bool   `env:"" help:"Start with the messages that the task inherits from other conversations. All formats except text always do."`
	Format    string `env:"" enum:"text,markdown,jsonl,json" default:"text" help:"Output format: text, markdown, jsonl or json. jsonl can be imported again. markdown cannot be combined with --json."`
}

// Run prints a conversation.
func (t *transcriptCommand) Run(ctx context.Context, a *app) error {
	if a.json && t.Format == formatMarkdown {
		return usagef("--json and --format %s can't be used together", t.Format)
	}
	return t.with(func(c *client) error {
		session, task, err := t.sessionAndTask(ctx, c, t.Session, t.Task)
		if err != nil {
			return err
		}
		if t.Format != formatText {
			return t.export(ctx, a, c, session, task)
		}
		stream, err := c.tasks.GetTranscript(ctx, &pb.GetTranscriptRequest{
			SessionId: session, TaskId: task, IncludeInherited: t.Inherited,
		})
		if err != nil {
			return during("reading the transcript", err)
		}
		reader := &transcript{theme: a.theme(), full: t.Full}
		for {
			resp, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return during("reading the transcript", err)
			}
			reader.inherited = resp.GetInherited()
			for _, m := range resp.GetMessages() {
				if a.json {
					err = a.printJSON(m)
				} else {
					err = a.print(reader.message(m)...)
				}
				if err != nil {
					return err
				}
			}
		}
	})
}

// How much of a call and of its result is shown without --full.
const (
	inputCells  = 160
	resultLines = 8
	resultCells = 160
)

// transcript formats messages as lines, one message after another.
type transcript struct {
	theme theme
	full  bool
	tools map[int32]string // tools of the last assistant message, by block

	inherited bool // the messages belong to another task
}

// message returns the lines of the next message.
func (t *transcript) message(m *pb.Message) []string {
	if m.GetRole() != pb.Role_ROLE_TOOL {
		t.tools = map[int32]string{}
	}
	lines := []string{t.heading(m)}
	for i, b := range m.GetBlocks() {
		switch k := b.GetKind().(type) {
		case *pb.Block_Text:
			lines = append(lines, indent(safeText(strings.TrimSpace(k.Text.GetText())))...)
		case *pb.Block_Thinking:
			for _, line := range indent("(thinking) " + safeText(strings.TrimSpace(k.Thinking.GetText()))) {
				lines = append(lines, t.theme.dim.Render(line))
			}
		case *pb.Block_ToolUse:
			t.tools[int32(i)] = k.ToolUse.GetName()
			lines = append(lines, t.call(k.ToolUse)...)
		case *pb.Block_ToolResult:
			lines = append(lines, t.result(k.ToolResult)...)
		case *pb.Block_Attachment:
			lines = append(lines, "  "+attachmentText(k.Attachment))
		}
	}
	return append(lines, "")
}

func (t *transcript) heading(m *pb.Message) string {
	who := "user"
	var more []string
	switch {
	case m.GetRole() == pb.Role_ROLE_ASSISTANT:
		who = "assistant"
		if m.GetModel() != "" {
			more = append(more, safeLine(m.GetModel()))
		}
		more = append(more, tokenUsage{}.addUsage(m.GetUsage()).text("tokens"))
		switch m.GetStopReason() {
		case pb.StopReason_STOP_REASON_MAX_TOKENS:
			more = append(more, "cut at its output limit")
		case pb.StopReason_STOP_REASON_REFUSAL:
			more = append(more, "declined")
		}
	case m.GetRole() == pb.Role_ROLE_TOOL:
		who = "tools"
	case m.GetSumsUpTo() > 0:
		who = fmt.Sprintf("summary of messages up to %d", m.GetSumsUpTo())
		if used := (tokenUsage{}).addUsage(m.GetUsage()); used.tokens > 0 { // an imported one has none
			more = append(more, used.text("tokens"))
		}
	case m.GetNews() != nil:
		who = "news of task " + idEnd(m.GetNews().GetTaskId())
	}
	if t.inherited {
		more = append(more, "inherited")
	}
	if m.GetRun() > 1 && !t.inherited {
		more = append(more, fmt.Sprintf("run %d", m.GetRun()))
	}
	number := t.theme.dim.Render(fmt.Sprintf("%d ", m.GetOrdinal()))
	if len(more) == 0 {
		return number + t.theme.bold.Render(who)
	}
	return number + t.theme.bold.Render(who) + t.theme.dim.Render(" ("+strings.Join(more, ", ")+")")
}

func (t *transcript) call(u *pb.ToolUseBlock) []string {
	head := "  " + t.theme.busy.Render(t.theme.callArrow+" "+safeLine(u.GetName()))
	if t.full {
		return append([]string{head}, indent(safeText(u.GetInputJson()))...)
	}
	return []string{head + " " + ansi.Truncate(safeLine(u.GetInputJson()), inputCells, t.theme.ellipsis)}
}

func (t *transcript) result(r *pb.ToolResultBlock) []string {
	head := t.theme.resultArrow + " " + safeLine(t.tools[r.GetBlock()])
	style := t.theme.good
	if r.GetIsError() {
		head, style = head+" failed", t.theme.bad
	}
	lines := indent(safeText(strings.TrimRight(r.GetText(), "\n")))
	if !t.full {
		hidden := len(lines) - resultLines
		lines = lines[:min(len(lines), resultLines)]
		for i, line := range lines {
			lines[i] = ansi.Truncate(line, resultCells, t.theme.ellipsis)
		}
		if hidden > 0 {
			lines = append(lines, t.theme.dim.Render(fmt.Sprintf("    %s %d more lines (--full shows them)", t.theme.ellipsis, hidden)))
		}
	}
	for i := range lines {
		lines[i] = "  " + lines[i]
	}
	return append([]string{"  " + style.Render(head)}, lines...)
}

// indent returns the lines of a text, indented.
func indent(text string) []string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = "  " + line
	}
	return lines
}

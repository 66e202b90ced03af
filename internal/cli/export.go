package cli

import (
	"context"
	"fmt"
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	history "github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/wire"
)

// The formats of a transcript.
const (
	formatText     = "text"
	formatMarkdown = "markdown"
	formatLines    = "jsonl"
)

// export writes a conversation in a format other than text. It includes inherited messages.
func (t *transcriptCommand) export(ctx context.Context, a *app, c *client, session, task string) error {
	inherited, own, err := c.conversation(ctx, session, task, true)
	if err != nil {
		return err
	}
	switch t.Format {
	case formatLines:
		return t.lines(ctx, a, c, session, task, append(inherited, own...))
	case formatMarkdown:
		_, err := a.Stdout.Write([]byte(markdown(inherited, own)))
		return err
	}
	for _, m := range append(inherited, own...) {
		if err := a.printJSON(m); err != nil {
			return err
		}
	}
	return nil
}

func (t *transcriptCommand) lines(ctx context.Context, a *app, c *client, session, task string, messages []*pb.Message) error {
	read, err := wire.MessagesFrom(messages)
	if err != nil {
		return fmt.Errorf("reading the transcript: %w", err)
	}
	of := history.Origin{}
	if task != "" {
		resp, err := c.tasks.GetTask(ctx, &pb.GetTaskRequest{SessionId: session, TaskId: task})
		if err != nil {
			return during("reading the task", err)
		}
		if resp.GetTask().GetBranch() == pb.TaskBranch_TASK_BRANCH_SUBAGENT {
			of = history.Origin{Sidechain: true, Agent: task}
		}
	}
	data, err := history.Encode(read, of)
	if err != nil {
		return fmt.Errorf("writing the transcript: %w", err)
	}
	_, err = a.Stdout.Write(safeJSON(data))
	return err
}

// markdown formats a conversation as a Markdown document.
func markdown(inherited, own []*pb.Message) string {
	var doc strings.Builder
	tools := map[int32]string{}
	for i, m := range append(inherited, own...) {
		who := markdownWho(m)
		if i < len(inherited) {
			who += " (inherited)"
		}
		fmt.Fprintf(&doc, "## %d · %s\n\n", m.GetOrdinal(), who)
		if m.GetRole() != pb.Role_ROLE_TOOL {
			clear(tools)
		}
		for n, b := range m.GetBlocks() {
			switch k := b.GetKind().(type) {
			case *pb.Block_Text:
				doc.WriteString(safeText(strings.TrimSpace(k.Text.GetText())) + "\n\n")
			case *pb.Block_Thinking:
				for line := range strings.Lines(safeText(strings.TrimSpace(k.Thinking.GetText()))) {
					doc.WriteString("> " + strings.TrimRight(line, "\n") + "\n")
				}
				doc.WriteString("\n")
			case *pb.Block_ToolUse:
				tools[int32(n)] = k.ToolUse.GetName()
				doc.WriteString("Calls `" + safeLine(k.ToolUse.GetName()) + "`:\n\n" + fenced("json", k.ToolUse.GetInputJson()))
			case *pb.Block_ToolResult:
				failed := ""
				if k.ToolResult.GetIsError() {
					failed = ", an error"
				}
				doc.WriteString("Result of `" + safeLine(tools[k.ToolResult.GetBlock()]) + "`" + failed + ":\n\n" + fenced("", k.ToolResult.GetText()))
			case *pb.Block_Attachment:
				doc.WriteString(attachmentText(k.Attachment) + "\n\n")
			}
		}
	}
	return doc.String()
}

func markdownWho(m *pb.Message) string {
	switch {
	case m.GetSumsUpTo() > 0:
		return fmt.Sprintf("Summary of messages up to %d", m.GetSumsUpTo())
	case m.GetRole() == pb.Role_ROLE_ASSISTANT:
		return "Assistant"
	case m.GetRole() == pb.Role_ROLE_TOOL:
		return "Tools"
	case m.GetNews() != nil:
		return "News of task " + safeLine(m.GetNews().GetTaskId())
	}
	return "User"
}

// fenced puts a text into a code block, with a fence that is longer than any in the text.
func fenced(language, text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + language + "\n" + strings.TrimRight(safeText(text), "\n") + "\n" + fence + "\n\n"
}

// attachmentText describes an attachment.
func attachmentText(a *pb.AttachmentBlock) string {
	kind := strings.ToLower(strings.TrimPrefix(a.GetKind().String(), "ATTACHMENT_KIND_"))
	words := []string{kind}
	for _, w := range []string{a.GetName(), a.GetMediaType(), a.GetUrl()} {
		if w != "" {
			words = append(words, safeLine(w))
		}
	}
	if n := len(a.GetData()); n > 0 {
		words = append(words, plural(int64(n), "byte"))
	}
	return "[" + strings.Join(words, ", ") + "]"
}

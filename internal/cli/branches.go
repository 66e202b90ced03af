package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type branchCommand struct {
	remote
	Session     string   `arg:"" help:"The session."`
	Task        *string  `env:"" placeholder:"ID" help:"Task to continue from; default: the current one."`
	From        *string  `env:"" placeholder:"N" help:"Message to continue from: its number in the transcript, or its id; default: the last one."`
	Apart       bool     `env:"" help:"Start with the same agent and an empty conversation."`
	Regenerate  bool     `env:"" help:"Let the model answer again, without a new message."`
	Select      bool     `env:"" help:"Make the branch the current one: messages go to it from now on."`
	Description string   `env:"" help:"Short description of the branch."`
	Text        []string `arg:"" optional:"" help:"The first message; - reads it from standard input."`
}

// Run starts a branch from a message.
func (b *branchCommand) Run(ctx context.Context, a *app) error {
	req := &pb.CreateBranchRequest{Regenerate: b.Regenerate, Select: b.Select, Description: b.Description}
	if b.Apart {
		req.InheritContext = new(bool)
	}
	if len(b.Text) > 0 {
		var err error
		if req.Text, err = a.text(ctx, b.Text); err != nil {
			return err
		}
	}
	return b.with(func(c *client) error {
		var err error
		if req.SessionId, req.TaskId, err = c.sessionAndTask(ctx, b.Session, b.Task); err != nil {
			return err
		}
		if req.TaskId == "" {
			if req.TaskId, err = c.currentTask(ctx, req.GetSessionId()); err != nil {
				return err
			}
		}
		own, err := b.from(ctx, c, req)
		if err != nil {
			return err
		}
		resp, err := c.tasks.CreateBranch(ctx, req)
		if err != nil {
			return during("making the branch", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		t := resp.GetTask()
		if b.Apart {
			return a.print(fmt.Sprintf("branch %s of task %s starts with an empty conversation", safeLine(t.GetId()), safeLine(t.GetBase().GetTaskId())))
		}
		return a.print(fmt.Sprintf("branch %s continues from message %d of task %s%s",
			safeLine(t.GetId()), t.GetBase().GetOrdinal(), safeLine(t.GetBase().GetTaskId()), branchPointReason(own, req.GetMessageId(), t.GetBase())))
	})
}

// branchPointReason says why a branch starts before the named message, if the reason is that the
// message calls tools.
func branchPointReason(own []*pb.Message, named string, base *pb.Base) string {
	calls := func(b *pb.Block) bool { return b.GetToolUse() != nil }
	for _, m := range own {
		if m.GetId() == named && base.GetOrdinal() < m.GetOrdinal() && slices.ContainsFunc(m.GetBlocks(), calls) {
			return fmt.Sprintf(", because message %d calls tools", m.GetOrdinal())
		}
	}
	return ""
}

// currentTask returns the task that receives messages without a task id.
func (c *client) currentTask(ctx context.Context, session string) (string, error) {
	resp, err := c.sessions.GetSession(ctx, &pb.GetSessionRequest{SessionId: session})
	if err != nil {
		return "", during("reading the session", err)
	}
	return resp.GetSession().GetCurrentTaskId(), nil
}

// from finds the message of a task to branch from: by default the last one. own is the messages of
// the task, if they were read for that.
func (b *branchCommand) from(ctx context.Context, c *client, req *pb.CreateBranchRequest) (own []*pb.Message, err error) {
	switch {
	case b.From != nil && isID(*b.From):
		req.MessageId = *b.From
		return nil, nil
	case b.From != nil && *b.From == "":
		return nil, checkSuffix("message", *b.From)
	}
	_, own, err = c.conversation(ctx, req.GetSessionId(), req.GetTaskId(), false)
	switch {
	case err != nil:
	case b.From != nil:
		req.MessageId, err = messageOf(own, *b.From)
	case len(own) == 0:
		err = errors.New("the task has no message of its own yet")
	default:
		req.MessageId = own[len(own)-1].GetId()
	}
	return own, err
}

// messageOf finds a message by its number, or by the end of its id.
func messageOf(own []*pb.Message, name string) (string, error) {
	number, notANumber := strconv.ParseInt(name, 10, 32)
	tooShort := checkSuffix("message", name)
	var found []string
	for _, m := range own {
		switch {
		case notANumber == nil && int64(m.GetOrdinal()) == number:
			return m.GetId(), nil
		case tooShort == nil && strings.HasSuffix(m.GetId(), strings.ToLower(name)):
			found = append(found, m.GetId())
		}
	}
	switch {
	case notANumber == nil && len(found) != 1:
		return "", usagef("the task has no message %s of its own; see coppice transcript", name)
	case tooShort != nil:
		return "", tooShort
	}
	return single(found, "message", name)
}

// conversation reads the messages of a task and, on request, the inherited ones.
func (c *client) conversation(ctx context.Context, session, task string, inherit bool) (inherited, own []*pb.Message, err error) {
	stream, err := c.tasks.GetTranscript(ctx, &pb.GetTranscriptRequest{
		SessionId: session, TaskId: task, IncludeInherited: inherit,
	})
	if err != nil {
		return nil, nil, during("reading the transcript", err)
	}
	for {
		resp, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return inherited, own, nil
		case err != nil:
			return nil, nil, during("reading the transcript", err)
		case resp.GetInherited():
			inherited = append(inherited, resp.GetMessages()...)
		default:
			own = append(own, resp.GetMessages()...)
		}
	}
}

type selectCommand struct {
	remote
	taskFlag
	Session string  `arg:"" help:"The session."`
	Task    *string `arg:"" optional:"" help:"The branch; default: the root."`
}

// Run makes a branch, or the root, the current one.
func (s *selectCommand) Run(ctx context.Context, a *app) error {
	return s.with(func(c *client) error {
		session, task, err := s.sessionAndTask(ctx, c, s.Session, s.Task)
		if err != nil {
			return err
		}
		resp, err := c.tasks.SelectBranch(ctx, &pb.SelectBranchRequest{SessionId: session, TaskId: task})
		if err != nil {
			return during("selecting the branch", err)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print("messages go to task " + safeLine(resp.GetTask().GetId()) + " from now on")
	})
}

type importCommand struct {
	remote
	File  string `arg:"" help:"The transcript, as lines of JSON; - reads standard input."`
	Agent string `env:"" placeholder:"NAME" help:"Agent that continues the conversation; default: general-purpose."`
	Title string `env:"" help:"Title of the session; default: the start of its first message."`
	Model string `env:"" placeholder:"NAME" help:"Model to use; default: the agent's."`
}

// importPiece is the size of a piece of a transcript on the stream.
const importPiece = 256 << 10

// Run opens a session that begins with a transcript.
func (i *importCommand) Run(ctx context.Context, a *app) error {
	data, err := a.file(ctx, i.File, "the transcript", maxTranscript)
	if err != nil {
		return err
	}
	return i.with(func(c *client) error {
		resp, err := i.send(ctx, c, data)
		if err != nil {
			return during("importing the transcript", err)
		}
		for _, note := range resp.GetNotes() {
			a.complain(note)
		}
		if a.json {
			return a.printJSON(resp)
		}
		return a.print(fmt.Sprintf("session %s begins with %s",
			safeLine(resp.GetSession().GetId()), plural(int64(resp.GetMessages()), "message")))
	})
}

func (i *importCommand) send(ctx context.Context, c *client, data []byte) (*pb.ImportSessionResponse, error) {
	stream, err := c.sessions.ImportSession(ctx)
	if err != nil {
		return nil, err
	}
	pieces := []*pb.ImportSessionRequest{{Piece: &pb.ImportSessionRequest_Opening{
		Opening: &pb.ImportOpening{Agent: i.Agent, Title: i.Title, Model: i.Model},
	}}}
	for piece := range chunksOf(data, importPiece) {
		pieces = append(pieces, &pb.ImportSessionRequest{Piece: &pb.ImportSessionRequest_Lines{Lines: piece}})
	}
	for _, piece := range pieces {
		if err := stream.Send(piece); err != nil && !errors.Is(err, io.EOF) {
			return nil, err // after io.EOF, CloseAndRecv returns the reason
		}
	}
	return stream.CloseAndRecv()
}

// chunksOf splits data into pieces of at most size bytes.
func chunksOf(data []byte, size int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(size, len(data))
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// Bounds of a batch.
const (
	batchMost    = 256 // sessions at once: what an orchestrator takes of one stream
	batchNameMax = 150 // bytes of a name, which idempotency keys begin with
)

type batchCommand struct {
	remote
	Name   string `env:"" placeholder:"NAME" help:"Name of the batch. The same lines under the same name go on where they were, and none is run twice."`
	Agent  string `env:"" placeholder:"NAME" help:"Agent at the roots; by default general-purpose."`
	AtOnce int    `env:"" default:"64" help:"How many sessions are open at once."`
	permissionFlags
	budgetFlags
	callbackFlags
	File string `arg:"" optional:"" help:"File with a prompt on each line; by default, and with -, standard input. A line that is a JSON object is a CreateSessionRequest."`
}

// Run opens a session for each line, and shows their answers as they come.
func (b *batchCommand) Run(ctx context.Context, a *app) error {
	if b.AtOnce < 1 || b.AtOnce > batchMost {
		return usagef("--at-once is %d; it must be from 1 to %d", b.AtOnce, batchMost)
	}
	if len(b.Name) > batchNameMax {
		return usagef("--name has %d bytes, at most %d", len(b.Name), batchNameMax)
	}
	if b.Name == "" {
		b.Name = uuid.NewString()
	}
	asked, err := b.read(ctx, a)
	if err != nil {
		return err
	}
	return b.with(func(c *client) error {
		all := &batch{app: a, client: c, atOnce: b.AtOnce, rest: asked, approvals: b.deciding(a).list, open: map[int64]*pb.CreateSessionsRequest{}, asking: map[int64]map[string]bool{}, began: a.now()}
		err := retried(ctx, false, all.lost, func() (bool, error) { return all.stream(ctx) })
		if len(all.rest) < len(asked) || err == nil {
			if failed := all.count(); err == nil {
				err = failed
			}
		}
		if left := len(all.open) + len(all.rest); len(all.rest) < len(asked) && left > 0 {
			a.complain(fmt.Sprintf("%s left; the same with --name %s goes on with them", plural(int64(left), "line"), shellWord(b.Name)))
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return during("running the batch", err)
		}
		return all.code()
	})
}

// read gives what the lines ask for, numbered as the lines are.
func (b *batchCommand) read(ctx context.Context, a *app) (asked []*pb.CreateSessionsRequest, err error) {
	permissions, err := b.permissions()
	if err != nil {
		return nil, err
	}
	budget, err := b.over(nil)
	if err != nil {
		return nil, err
	}
	if b.File == "" && isTerminal(a.Stdin) {
		a.complain("reading from standard input, a prompt on each line; Ctrl-D ends it")
	}
	err = a.lines(ctx, cmp.Or(b.File, "-"), func(number int64, line []byte) error {
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // with which some editors begin a file
		}
		session, err := sessionOf(bytes.TrimSpace(line))
		if err != nil {
			return usagef("line %d: %w", number, err)
		}
		if session == nil {
			return nil
		}
		if session.Agent == "" {
			session.Agent = b.Agent
		}
		switch p := session.GetPermissions(); {
		case p == nil:
			session.Permissions = permissions
		case p.GetApprovals() == pb.SubagentApprovals_SUBAGENT_APPROVALS_UNSPECIFIED: // no permission, but who answers
			p.Approvals = permissions.GetApprovals()
		}
		if session.Budget == nil {
			session.Budget = budget
		}
		b.say(session)
		if session.IdempotencyKey == "" {
			session.IdempotencyKey = fmt.Sprintf("%s/%d", b.Name, number)
		}
		session.Wait = durationpb.New(waitSoon)
		asked = append(asked, &pb.CreateSessionsRequest{Number: number, Session: session})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return asked, nil
}

// sessionOf reads a line: a prompt, or a request as JSON; nil if it is empty.
func sessionOf(line []byte) (*pb.CreateSessionRequest, error) {
	session := &pb.CreateSessionRequest{}
	switch {
	case len(line) == 0:
		return nil, nil
	case !utf8.Valid(line):
		return nil, errors.New("it is not UTF-8")
	case line[0] == '{':
		if err := protojson.Unmarshal(line, session); err != nil {
			return nil, fmt.Errorf("it is no CreateSessionRequest: %w", err)
		}
		if session.GetMessage().GetText() == "" {
			return nil, errors.New("it has no message")
		}
	default:
		session.Message = &pb.UserMessage{Text: string(line)}
	}
	return session, nil
}

// batch is sessions that are opened and waited for, over one stream after another.
type batch struct {
	app    *app
	client *client
	atOnce int
	rest   []*pb.CreateSessionsRequest         // that are still to be asked for
	open   map[int64]*pb.CreateSessionsRequest // that have been asked for, and have not ended; by number
	began  time.Time
	told   bool                      // that nothing comes any more
	asking map[int64]map[string]bool // the approvals of which was said that a number waits for them

	approvals string // the command that lists them

	answers                    int64 // that say more than that it can't be done now
	completed, failed, refused int64
	denied                     int64 // calls of all that have ended
}

// lost tells of a broken stream, once until there is an answer again.
func (b *batch) lost(error) {
	if !b.told {
		b.app.complain("the connection is lost; trying again")
	}
	b.told = true
}

// stream opens and waits for all that is left over one stream. got is whether there was
// somebody at its other end who could do something.
func (b *batch) stream(ctx context.Context) (got bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := b.client.sessions.CreateSessions(ctx)
	if err != nil {
		return false, err
	}
	if _, err := stream.Header(); err != nil {
		return false, err
	}
	answers, broken := make(chan *pb.CreateSessionsResponse), make(chan error, 1)
	go func() { broken <- pass(ctx, stream, answers) }()
	before := b.answers
	err = b.exchange(stream, answers, broken)
	return b.answers > before || !errors.Is(err, errNotNow), err
}

// pass hands answers on until the stream breaks.
func pass(ctx context.Context, stream pb.SessionService_CreateSessionsClient, to chan<- *pb.CreateSessionsResponse) error {
	for {
		answer, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return errStreamEnded
		case err != nil:
			return err
		}
		select {
		case to <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// exchange asks for what was open on the stream before, and then for the rest as others end.
func (b *batch) exchange(stream pb.SessionService_CreateSessionsClient, answers <-chan *pb.CreateSessionsResponse, broken <-chan error) error {
	for _, number := range slices.Sorted(maps.Keys(b.open)) {
		if err := ask(stream, b.open[number]); err != nil {
			return err
		}
	}
	for {
		for len(b.rest) > 0 && len(b.open) < b.atOnce {
			next := b.rest[0]
			b.rest, b.open[next.GetNumber()] = b.rest[1:], next
			if err := ask(stream, next); err != nil {
				return err
			}
		}
		if len(b.open) == 0 {
			return nil
		}
		select {
		case answer := <-answers:
			again, err := b.take(stream.Context(), answer)
			if err == nil && again != nil {
				err = ask(stream, again)
			}
			if err != nil {
				return err
			}
		case err := <-broken:
			return err
		}
	}
}

// ask sends a request. Why a stream is broken, those learn who receive.
func ask(stream pb.SessionService_CreateSessionsClient, req *pb.CreateSessionsRequest) error {
	if err := stream.Send(req); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// take counts and shows an answer, or gives the request again of a session that goes on.
func (b *batch) take(ctx context.Context, answer *pb.CreateSessionsResponse) (again *pb.CreateSessionsRequest, err error) {
	number, refused := answer.GetNumber(), answer.GetRefused()
	if codes.Code(refused.GetCode()) == codes.Unavailable {
		return nil, fmt.Errorf("%w: %s", errNotNow, refused.GetMessage())
	}
	b.told = false
	b.answers++
	if refused == nil && !answer.GetOpened().GetEnded() {
		b.asks(ctx, number, answer.GetOpened())
		again = proto.CloneOf(b.open[number]) // what was sent is gRPC's
		again.Session.Wait = durationpb.New(longer(again.GetSession().GetWait().AsDuration()))
		b.open[number] = again
		return again, nil
	}
	delete(b.open, number)
	delete(b.asking, number)
	b.denied += int64(answer.GetOpened().GetSession().GetDeniedCalls())
	switch {
	case refused != nil:
		b.refused++
	case answer.GetOpened().GetRoot().GetState() == pb.TaskState_TASK_STATE_COMPLETED:
		b.completed++
	default:
		b.failed++
	}
	return nil, b.print(answer)
}

// asks says that a session goes on only after an approval, once for those that are open together,
// and for each that comes later; where they can't be listed, once. Of a session that was opened
// just now only the root is as it is by now.
func (b *batch) asks(ctx context.Context, number int64, opened *pb.CreateSessionResponse) {
	s := opened.GetSession()
	if s.GetOpenApprovals()+opened.GetRoot().GetOpenApprovals() == 0 {
		return
	}
	was, told := b.asking[number]
	open, more := map[string]bool{}, false
	err := b.client.eachApproval(ctx, s.GetId(), false, func(p *pb.Approval) error {
		open[p.GetId()] = true
		more = more || !was[p.GetId()]
		return nil
	})
	switch {
	case ctx.Err() != nil || mayGoOn(err): // the next answer comes
		return
	case err != nil:
		open, more = was, !told
	}
	b.asking[number] = open
	if more {
		b.app.complain(fmt.Sprintf("line %d waits for an approval: %s %s", number, b.approvals, s.GetId()))
	}
}

// refusalText says why a line is refused. Who has typed a name knows of no key.
func refusalText(refused *pb.Refusal) string {
	if refused.GetReason() == tree.ErrKeyReused.Reason() {
		return "this name was used for a line with another text, agent, permissions, budget or callbacks; choose another --name"
	}
	return safeLine(refused.GetMessage())
}

// print shows an answer on one line.
func (b *batch) print(answer *pb.CreateSessionsResponse) error {
	if b.app.json {
		return b.app.printJSON(answer)
	}
	l, root := b.app.look(), answer.GetOpened().GetRoot()
	parts := []string{fmt.Sprintf("%4d", answer.GetNumber())}
	if refused := answer.GetRefused(); refused != nil {
		parts = append(parts, l.mark(pb.TaskState_TASK_STATE_FAILED, -1)+" refused: "+refusalText(refused))
	} else {
		said := safeLine(root.GetResult())
		if reason := why(root.GetReason(), root.GetDetail()); reason != "" {
			said = reason
		}
		state := l.mark(root.GetState(), -1) + " " + stateText(root.GetState())
		if denied := answer.GetOpened().GetSession().GetDeniedCalls(); denied > 0 {
			state += ", " + deniedCalls(int64(denied))
		}
		parts = append(parts, state, safeLine(root.GetSessionId()), said)
	}
	line := strings.Join(parts, "  ")
	if width, terminal := b.app.terminal(b.app.Stdout); terminal {
		line = ansi.Truncate(line, width, l.more)
	}
	return b.app.print(line)
}

// count says what has come of all so far.
func (b *batch) count() error {
	if b.app.json {
		return nil
	}
	l := b.app.look()
	all := []string{
		plural(b.completed+b.failed+b.refused, "session") + " in " + durationText(b.app.now().Sub(b.began)),
		fmt.Sprintf("%d completed", b.completed),
	}
	if b.failed > 0 {
		all = append(all, fmt.Sprintf("%d failed or cancelled", b.failed))
	}
	if b.refused > 0 {
		all = append(all, fmt.Sprintf("%d refused", b.refused))
	}
	if b.denied > 0 {
		all = append(all, deniedCalls(b.denied))
	}
	return b.app.print(l.dim.Render(strings.Join(all, l.dot)))
}

// code gives the exit code for what has come of all.
func (b *batch) code() error {
	switch {
	case b.refused > 0:
		return exitCode(exitRefused)
	case b.failed > 0:
		return exitCode(exitFailed)
	}
	return nil
}

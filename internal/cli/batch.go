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
	maxBatchAtOnce = 256 // sessions at once: the maximum of one stream
	maxBatchName   = 150 // bytes of a name, which begins the idempotency keys
)

type batchCommand struct {
	remote
	Name   string `env:"" placeholder:"NAME" help:"Name of the batch. If you run the same file under the same name again, its lines continue where they were and none runs twice. A line is known by its number: add new ones only at the end of the file."`
	Agent  string `env:"" placeholder:"NAME" help:"Agent of the roots; default: general-purpose."`
	AtOnce int    `env:"" default:"64" help:"How many sessions are open at once."`
	permissionFlags
	Approvals string `env:"" enum:"deny,escalate," default:"" placeholder:"WHERE" help:"Handling of sub-agents' calls that need approval: deny, or escalate to the session's approvals. Definitions can override it. Default: that of the orchestrator."`
	budgetFlags
	callbackFlags
	File string `arg:"" optional:"" help:"File with one prompt per line; default, and with -: standard input. A line that is a JSON object is a CreateSessionRequest; its permissions and its budget replace those of the flags."`
}

// Run opens a session for each line, and prints their answers as they arrive.
func (b *batchCommand) Run(ctx context.Context, a *app) error {
	if b.AtOnce < 1 || b.AtOnce > maxBatchAtOnce {
		return usagef("--at-once is %d; it must be from 1 to %d", b.AtOnce, maxBatchAtOnce)
	}
	if len(b.Name) > maxBatchName {
		return usagef("--name has %d bytes, at most %d", len(b.Name), maxBatchName)
	}
	if err := a.refuseEmpty("name"); err != nil {
		return err
	}
	if b.Name == "" {
		b.Name = uuid.NewString()
	}
	asked, err := b.read(ctx, a)
	if err != nil {
		return err
	}
	return b.with(func(c *client) error {
		all := &batch{app: a, client: c, atOnce: b.AtOnce, pending: asked, listCommand: b.decisionHelp(a).listCommand, open: map[int64]*pb.CreateSessionsRequest{}, reportedApprovals: map[int64]map[string]bool{}, startedAt: a.now()}
		err := withRetries(ctx, false, all.reportLost, func() (bool, error) { return all.stream(ctx) })
		if len(all.pending) < len(asked) || err == nil {
			if failed := all.printCounts(); err == nil {
				err = failed
			}
		}
		if left := len(all.open) + len(all.pending); len(all.pending) < len(asked) && left > 0 {
			a.complain(fmt.Sprintf("%s left; run the same command with --name %s to continue with them", plural(int64(left), "line"), shellWord(b.Name)))
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

// read returns the requests of all lines, with the line numbers.
func (b *batchCommand) read(ctx context.Context, a *app) (asked []*pb.CreateSessionsRequest, err error) {
	permissions, err := b.permissions(b.Approvals)
	if err != nil {
		return nil, err
	}
	budget, err := b.budgetFrom(nil)
	if err != nil {
		return nil, err
	}
	if b.File == "" && isTerminal(a.Stdin) {
		a.complain("reading from standard input, a prompt on each line; Ctrl-D ends it")
	}
	err = a.lines(ctx, cmp.Or(b.File, "-"), func(number int64, line []byte) error {
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff")) // some editors begin a file with a byte order mark
		}
		session, err := parseLine(bytes.TrimSpace(line))
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
		case p.GetApprovals() == pb.SubagentApprovals_SUBAGENT_APPROVALS_UNSPECIFIED: // the line has permissions of its own; only the approvals default applies
			p.Approvals = permissions.GetApprovals()
		}
		if session.Budget == nil {
			session.Budget = budget
		}
		b.setCallbacks(session)
		if session.IdempotencyKey == "" {
			session.IdempotencyKey = fmt.Sprintf("%s/%d", b.Name, number)
		}
		session.Wait = durationpb.New(minWait)
		asked = append(asked, &pb.CreateSessionsRequest{Number: number, Session: session})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return asked, nil
}

// parseLine parses a line: a prompt, or a request as JSON; nil if it is empty.
func parseLine(line []byte) (*pb.CreateSessionRequest, error) {
	session := &pb.CreateSessionRequest{}
	switch {
	case len(line) == 0:
		return nil, nil
	case !utf8.Valid(line):
		return nil, errors.New("it is not UTF-8")
	case line[0] == '{':
		if err := protojson.Unmarshal(line, session); err != nil {
			return nil, fmt.Errorf("it is not a CreateSessionRequest: %s", jsonProblem(err))
		}
		if session.GetMessage().GetText() == "" {
			return nil, errors.New("it has no message")
		}
	default:
		session.Message = &pb.UserMessage{Text: string(line)}
	}
	return session, nil
}

// jsonProblem returns the error of one line of JSON without the number of the line, which is always
// 1. The parser's own text begins with its name and a space of one kind or another.
func jsonProblem(err error) string {
	text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	return strings.Replace(text, "(line 1:", "(column ", 1)
}

// batch opens sessions and waits for them, over one stream after another.
type batch struct {
	app               *app
	client            *client
	atOnce            int
	pending           []*pb.CreateSessionsRequest         // not sent yet
	open              map[int64]*pb.CreateSessionsRequest // sent and not ended, by number
	startedAt         time.Time
	lossReported      bool                      // the loss of the connection was reported
	reportedApprovals map[int64]map[string]bool // ids of reported approvals, by number

	listCommand string // the command that lists approvals

	answers                    int64 // other than "not now"
	completed, failed, refused int64
	denied                     int64 // calls of all that have ended
}

// reportLost reports a broken stream, once until there is an answer again.
func (b *batch) reportLost(error) {
	if !b.lossReported {
		b.app.complain(connectionLost)
	}
	b.lossReported = true
}

// stream sends the remaining requests over one stream and waits for the answers. got reports
// whether an orchestrator was there that could serve.
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
	go func() { broken <- forwardAnswers(ctx, stream, answers) }()
	before := b.answers
	err = b.exchange(stream, answers, broken)
	return b.answers > before || !errors.Is(err, errNotNow), err
}

// forwardAnswers forwards answers until the stream breaks.
func forwardAnswers(ctx context.Context, stream pb.SessionService_CreateSessionsClient, to chan<- *pb.CreateSessionsResponse) error {
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

// exchange sends the requests that were open on the previous stream, and then further ones as
// others end.
func (b *batch) exchange(stream pb.SessionService_CreateSessionsClient, answers <-chan *pb.CreateSessionsResponse, broken <-chan error) error {
	for _, number := range slices.Sorted(maps.Keys(b.open)) {
		// A short wait, so that the first answer soon shows that the requests are served again.
		if err := ask(stream, b.askAgain(number, minWait)); err != nil {
			return err
		}
	}
	for {
		for len(b.pending) > 0 && len(b.open) < b.atOnce {
			next := b.pending[0]
			b.pending, b.open[next.GetNumber()] = b.pending[1:], next
			if err := ask(stream, next); err != nil {
				return err
			}
		}
		if len(b.open) == 0 {
			return nil
		}
		select {
		case answer := <-answers:
			again, err := b.handleAnswer(stream.Context(), answer)
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

// ask sends a request. If the stream is broken, the receiver learns the reason.
func ask(stream pb.SessionService_CreateSessionsClient, req *pb.CreateSessionsRequest) error {
	if err := stream.Send(req); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// handleAnswer counts and prints an answer. For a session that continues, it returns the request
// to send again.
func (b *batch) handleAnswer(ctx context.Context, answer *pb.CreateSessionsResponse) (again *pb.CreateSessionsRequest, err error) {
	number, refused := answer.GetNumber(), answer.GetRefused()
	if codes.Code(refused.GetCode()) == codes.Unavailable {
		return nil, fmt.Errorf("%w: %s", errNotNow, refused.GetMessage())
	}
	if b.lossReported {
		b.app.complain(connectedAgain)
		b.lossReported = false
	}
	b.answers++
	if refused == nil && !answer.GetOpened().GetEnded() {
		b.reportApprovals(ctx, number, answer.GetOpened())
		return b.askAgain(number, nextWait(b.open[number].GetSession().GetWait().AsDuration())), nil
	}
	delete(b.open, number)
	delete(b.reportedApprovals, number)
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

// askAgain returns the request to send again for a session that continues.
func (b *batch) askAgain(number int64, wait time.Duration) *pb.CreateSessionsRequest {
	again := proto.CloneOf(b.open[number]) // gRPC may still use the request that was sent
	again.Session.Wait = durationpb.New(wait)
	b.open[number] = again
	return again
}

// reportApprovals reports that a session waits for approvals: once for those that are open
// together, and again for each later one. If approvals cannot be listed, it reports once. In a
// response that has just opened a session, only the root is up to date.
func (b *batch) reportApprovals(ctx context.Context, number int64, opened *pb.CreateSessionResponse) {
	s := opened.GetSession()
	if s.GetOpenApprovals()+opened.GetRoot().GetOpenApprovals() == 0 {
		return
	}
	was, told := b.reportedApprovals[number]
	open, more := map[string]bool{}, false
	err := b.client.eachApproval(ctx, s.GetId(), false, func(p *pb.Approval) error {
		open[p.GetId()] = true
		more = more || !was[p.GetId()]
		return nil
	})
	switch {
	case ctx.Err() != nil || isTemporary(err): // the next answer tries again
		return
	case err != nil:
		open, more = was, !told
	}
	b.reportedApprovals[number] = open
	if more {
		b.app.complain(fmt.Sprintf("line %d waits for an approval: %s %s", number, b.listCommand, s.GetId()))
	}
}

// refusalText says why a line was refused, in terms of --name instead of idempotency keys.
func refusalText(refused *pb.Refusal) string {
	if refused.GetReason() == tree.ErrKeyReused.Reason() {
		return "this name, or the idempotencyKey of the line, was used for a line with another text, agent, permissions, budget or callbacks; choose another"
	}
	return safeLine(refused.GetMessage())
}

// print prints an answer on one line.
func (b *batch) print(answer *pb.CreateSessionsResponse) error {
	if b.app.json {
		return b.app.printJSON(answer)
	}
	l, root := b.app.theme(), answer.GetOpened().GetRoot()
	parts := []string{fmt.Sprintf("%4d", answer.GetNumber())}
	if refused := answer.GetRefused(); refused != nil {
		parts = append(parts, l.mark(pb.TaskState_TASK_STATE_FAILED, -1)+" refused: "+refusalText(refused))
	} else {
		said := safeLine(root.GetResult())
		if reason := reasonText(root.GetReason(), root.GetDetail()); reason != "" {
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
		line = ansi.Truncate(line, width, l.ellipsis)
	}
	return b.app.print(line)
}

// printCounts prints the counts so far.
func (b *batch) printCounts() error {
	if b.app.json {
		return nil
	}
	l := b.app.theme()
	all := []string{
		plural(b.completed+b.failed, "session") + " in " + durationText(b.app.now().Sub(b.startedAt)),
		fmt.Sprintf("%d completed", b.completed),
	}
	if b.failed > 0 {
		all = append(all, fmt.Sprintf("%d failed or cancelled", b.failed))
	}
	if b.refused > 0 {
		all = append(all, plural(b.refused, "line")+" refused")
	}
	if b.denied > 0 {
		all = append(all, deniedCalls(b.denied))
	}
	return b.app.print(l.dim.Render(strings.Join(all, l.separator)))
}

// code returns the exit code of the batch.
func (b *batch) code() error {
	switch {
	case b.refused > 0:
		return exitCode(exitRefused)
	case b.failed > 0:
		return exitCode(exitFailed)
	}
	return nil
}

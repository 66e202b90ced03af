package chaos_test

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/chaos"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// imported is the shape of sessions that begin with a conversation from elsewhere.
const imported = "imported"

// lasting is the shape of trees whose children are at work for seconds, in campaigns.
const lasting = "lasting"

// shapes are the first messages of sessions, which say what their trees look
// like; see testdata/scenario.yaml.
func shapes() []string {
	return []string{"wide", "deep", "chain 4", "background", "waiting", "failing", "noting", "asking", "crowded", "scarce", "poor", "racing", "hasty", "resuming", "summing", "timed", "hooked", "commanding", imported}
}

// budgets are those of sessions, by shape. That of a scarce tree is enough for all of it, and
// for what a client adds, but not for a dear call of each of its runs at once. That of a poor tree
// is enough for eight of its twelve calls.
func budgets(shape string) *pb.Budget {
	switch shape {
	case "scarce":
		return &pb.Budget{Tokens: 14_500}
	case "poor":
		return &pb.Budget{Tokens: 1000}
	}
	return nil
}

// permissions are those of sessions, by shape: each note of an asking tree needs an approval, and no
// command does.
func permissions(shape string) *pb.Permissions {
	switch shape {
	case "asking":
		return &pb.Permissions{Ask: []string{"mcp__witness__note"}}
	case "commanding":
		return &pb.Permissions{Allow: []string{"bash"}}
	}
	return nil
}

// What clients do to a tree that makes it harder; each is counted like a fault.
const (
	callRepeated  = "client call repeated with its key"
	watcherCut    = "watcher cut and resumed"
	treeCancelled = "cancel in the middle of a tree"
	taskCancelled = "cancel racing completion"
	taskBacked    = "task put into the background"
	interrupted   = "message that interrupts"
	steered       = "message to a task below the root"
	sessionClosed = "session closed in the middle"
	budgetRaised  = "budget raised"
	branched      = "branch in the middle of a tree"
)

// counts counts by name.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

func newCounts() *counts { return &counts{of: map[string]int{}} }

func (c *counts) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[name]++
}

// crowd is the clients of an installation. What they are acknowledged they
// record; what surprises them they keep.
type crowd struct {
	sessions  pb.SessionServiceClient
	tasks     pb.TaskServiceClient
	approvals pb.ApprovalServiceClient
	log       *chaos.Log
	name      string // keys begin with it
	counts    *counts
	calm      bool // look only: nothing is repeated or cut
	mischief  func(*tree) []act
	events    atomic.Int64  // seen
	milepost  chan struct{} // holds one: so many more events were seen
	number    atomic.Int64
	sightings *sightings

	mu        sync.Mutex
	opened    map[string]string // session → shape
	surprises []string
}

func newCrowd(conn grpc.ClientConnInterface, log *chaos.Log, name string, c *counts) *crowd {
	return &crowd{
		sessions: pb.NewSessionServiceClient(conn), tasks: pb.NewTaskServiceClient(conn),
		approvals: pb.NewApprovalServiceClient(conn),
		log:       log, name: name, counts: c, mischief: byChance, milepost: make(chan struct{}, 1), opened: map[string]string{},
		sightings: newSightings(),
	}
}

// patience is how long a call may take before it is made again.
const patience = 5 * time.Second

// tree is a session of one client, from its creation to its end.
type tree struct {
	*crowd
	rng     *rand.Rand
	shape   string
	session string
	root    string
	seen    int64
	plan    []act
	live    []*pb.Event           // starts of runs
	said    []*pb.MessageAppended // the root's messages
	asks    []string              // approvals to be decided
	several bool                  // the last watch was given several events in a step, each other one is
}

// grow opens a session of a shape and stays with it until it is idle and nothing
// is left to do, or ctx ends.
func (c *crowd) grow(ctx context.Context, rng *rand.Rand, shape string) error {
	t := &tree{crowd: c, rng: rng, shape: shape}
	if err := t.open(ctx); err != nil {
		return err
	}
	t.plan = c.mischief(t)
	for {
		planned := len(t.plan)
		idle, err := t.watch(ctx)
		if err != nil {
			return err
		}
		if !idle || len(t.plan) < planned { // it may have been idle before the last act
			continue
		}
		if len(t.plan) == 0 {
			return nil
		}
		if err := t.act(ctx); err != nil {
			return err
		}
	}
}

// call makes a call until it is answered. Each answer but success and what a
// client has to expect of an installation in trouble is a surprise.
func (c *crowd) call(ctx context.Context, what string, do func(context.Context) error) error {
	for {
		trying, cancel := context.WithTimeout(ctx, patience)
		err := do(trying)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !passing(err):
			return c.surprise("%s: %v", what, err)
		}
	}
}

// passing reports whether an error says that the call may succeed later.
func passing(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	}
	return false
}

func (c *crowd) surprise(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.surprises = append(c.surprises, err.Error())
	return err
}

// key makes a text that nobody else has.
func (c *crowd) key(what string) string {
	return fmt.Sprintf("%s %s %d", what, c.name, c.number.Add(1))
}

// once makes a call that has a key, and now and then makes it again.
func (t *tree) once(ctx context.Context, what string, do func(context.Context) error) error {
	if err := t.call(ctx, what, do); err != nil {
		return err
	}
	if t.calm || t.rng.IntN(4) > 0 {
		return nil
	}
	t.counts.add(callRepeated)
	return t.call(ctx, what+" again", do)
}

func (t *tree) open(ctx context.Context) error {
	if t.shape == imported {
		return t.openImported(ctx)
	}
	req := &pb.CreateSessionRequest{Message: &pb.UserMessage{Text: t.shape}, IdempotencyKey: t.key("open"), Budget: budgets(t.shape), Permissions: permissions(t.shape)}
	return t.once(ctx, "CreateSession", func(ctx context.Context) error {
		resp, err := t.sessions.CreateSession(ctx, req, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		return t.begin(resp.GetSession(), chaos.Record{Kind: chaos.Created, Key: req.GetIdempotencyKey(), Asks: len(req.GetPermissions().GetAsk()) > 0})
	})
}

//go:embed testdata/imported.jsonl
var conversation []byte

// openImported opens a session with a conversation from elsewhere, and then says what to do.
func (t *tree) openImported(ctx context.Context) error {
	key := t.key("import")
	err := t.once(ctx, "ImportSession", func(ctx context.Context) error {
		stream, err := t.sessions.ImportSession(ctx, grpc.WaitForReady(true))
		if err != nil {
			return err
		}
		for _, piece := range []*pb.ImportSessionRequest{
			{Piece: &pb.ImportSessionRequest_Opening{Opening: &pb.ImportOpening{IdempotencyKey: key}}},
			{Piece: &pb.ImportSessionRequest_Lines{Lines: conversation[:len(conversation)/2]}},
			{Piece: &pb.ImportSessionRequest_Lines{Lines: conversation[len(conversation)/2:]}},
		} {
			if stream.Send(piece) != nil {
				break // the answer says why
			}
		}
		resp, err := stream.CloseAndRecv()
		if err != nil {
			return err
		}
		return t.begin(resp.GetSession(), chaos.Record{Kind: chaos.Imported, Key: key, Ordinal: resp.GetMessages()})
	})
	if err != nil {
		return err
	}
	return t.sendText(ctx, t.shape, &pb.SendMessageRequest{SessionId: t.session, IdempotencyKey: t.key("first")})
}

// begin takes in the session that was opened.
func (t *tree) begin(s *pb.Session, opened chaos.Record) error {
	t.session, t.root = s.GetId(), s.GetRootTaskId()
	t.mu.Lock()
	t.opened[t.session] = t.shape
	t.mu.Unlock()
	opened.Session, opened.Task = t.session, t.root
	return t.log.Add(opened)
}

// watch follows the session from where it left off, until it is idle or the
// stream breaks, and does what is planned on the way.
func (t *tree) watch(ctx context.Context) (idle bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := chaos.Record{Kind: chaos.Watched, Session: t.session, After: t.seen}
	defer func() { err = errors.Join(err, t.log.Add(seen)) }()
	t.several = !t.several
	stream, err := t.sessions.WatchSession(ctx, &pb.WatchSessionRequest{
		SessionId: t.session, AfterSeq: t.seen, UntilIdle: true, SeveralEvents: t.several,
	}, grpc.WaitForReady(true))
	for cut := t.whenCut(); err == nil; {
		var resp *pb.WatchSessionResponse
		if resp, err = stream.Recv(); err != nil {
			break
		}
		if idle := resp.GetIdle(); idle != nil {
			seen.Idle = idle.GetCause() == pb.IdleCause_IDLE_CAUSE_DONE
			return seen.Idle, nil // otherwise it has waited for approvals that are given by now
		}
		for _, e := range append([]*pb.Event{resp.GetEvent()}, resp.GetMore()...) {
			t.see(e)
			seen.Digests = append(seen.Digests, chaos.DigestOf(e))
			if err := t.react(ctx); err != nil {
				return false, err
			}
			if cut--; cut == 0 {
				t.counts.add(watcherCut)
				return false, nil
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, io.EOF):
		return false, t.surprise("session %s: a watch ended without a word", t.session)
	case passing(err):
		return false, nil
	}
	return false, t.surprise("session %s: watching after %d: %v", t.session, t.seen, err)
}

// whenCut says after how many events this watch ends itself; 0: it does not.
func (t *tree) whenCut() int {
	if t.calm || t.rng.IntN(4) > 0 {
		return 0
	}
	return 1 + t.rng.IntN(20)
}

// mile is how many events are from one milepost to the next.
const mile = 70

func (t *tree) see(e *pb.Event) {
	t.seen = e.GetSeq()
	if t.events.Add(1)%mile == 0 {
		select {
		case t.milepost <- struct{}{}:
		default:
		}
	}
	if e.GetStarted() != nil {
		t.live = append(t.live, e)
	}
	if m := e.GetMessage(); m != nil && e.GetTaskId() == t.root {
		t.said = append(t.said, m)
	}
	if asked := e.GetApprovalRequested(); asked != nil {
		t.asks = append(t.asks, asked.GetApprovalId())
	}
	t.sightings.add(t.shape, e)
}

// all gives the sessions that were acknowledged, and their shapes.
func (c *crowd) all() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]string{}
	for id, shape := range c.opened {
		out[id] = shape
	}
	return out
}

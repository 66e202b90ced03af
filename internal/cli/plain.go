package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"charm.land/lipgloss/v2"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// plain tells of a session in lines that stay: one when a task starts, one when it
// ends, and some of what comes between, indented by its depth.
type plainView struct {
	out          io.Writer
	look         look
	forest       *forest
	decisionHelp decisionHelp
	after        int64 // what happened up to here is taken in and not told
	lost         int   // how often the stream broke since it stood last

	mu    sync.Mutex // over the forest and the output
	stall stallDetector
}

// tellLost is how often a stream has to break in a row until that is told: once is what
// another replica, or the same one, makes good at once.
const reportLostAfter = 2

// step takes in what a watcher is told.
func (p *plainView) step(step *pb.WatchSessionResponse) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch k := step.GetStep().(type) {
	case *pb.WatchSessionResponse_Event:
		return p.event(k.Event)
	case *pb.WatchSessionResponse_Delta:
		if n := p.forest.nodes[k.Delta.GetTaskId()]; n != nil && k.Delta.GetRestart() {
			return p.tell(n, safeLine(restartText(k.Delta)))
		}
	}
	return nil
}

// broke counts that the stream has broken, and reports whether that is to be told.
func (p *plainView) connectionLost() bool {
	p.lost++
	return p.lost == reportLostAfter
}

// stood takes in that the stream stands, and reports whether it was told that it does not.
func (p *plainView) connectionBack() bool {
	told := p.lost >= reportLostAfter
	p.lost = 0
	return told
}

// mindEvery is how often it is looked at whether the session stands still.
const stallCheckInterval = time.Second

// minding begins to look whether the session stands still, which no event says, and tells of
// it with the reason that why gives. stop ends that and waits.
func (p *plainView) watchStalls(ctx context.Context, why func(context.Context) string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		look := time.NewTicker(stallCheckInterval)
		defer look.Stop()
		for {
			select {
			case now := <-look.C:
				if p.isStalled(now) {
					p.tellQueued(why(ctx))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (p *plainView) isStalled(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stall.check(p.forest, now)
}

// tellQueued says what waits for a worker, and why. A line that can't be written is found
// out with the next.
func (p *plainView) tellQueued(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.forest.queued()
	if len(all) == 0 {
		return // it goes on
	}
	text := "queued: " + why
	if more := len(all) - 1; more > 0 {
		text = fmt.Sprintf("queued, and %d more: %s", more, why)
	}
	_ = p.tell(all[0], text)
}

// event takes in an event and tells of it.
func (p *plainView) event(e *pb.Event) error {
	settled := p.forest.questionSettledBy(e)
	p.forest.apply(e)
	if e.GetSeq() <= p.after {
		return nil
	}
	n := p.forest.nodes[e.GetTaskId()]
	var text string
	switch k := e.GetKind().(type) {
	case *pb.Event_Dispatched:
		if n.run == 0 || n.attempts > 1 {
			return nil
		}
		text = "started"
		if n.run > 1 {
			text = fmt.Sprintf("started, run %d", n.run)
		}
	case *pb.Event_Ready:
		switch k.Ready.GetCause() {
		case pb.ReadyCause_READY_CAUSE_REDELIVERED:
			text = "its worker was lost; another one goes on"
		case pb.ReadyCause_READY_CAUSE_MADE_WAY:
			text = "waits until the budget has a call left for it"
		default:
			return nil
		}
	case *pb.Event_Backgrounded:
		text = "goes on in the background"
	case *pb.Event_HookRan:
		text = hookText(k.HookRan)
	case *pb.Event_CallbackEnded:
		text = callbackText(k.CallbackEnded)
	case *pb.Event_Result:
		text = resultText(n)
		if w := reasonText(k.Result.GetReason(), k.Result.GetDetail()); w != "" {
			text += p.look.dot + w
		}
	case *pb.Event_ApprovalRequested:
		text = askText(k.ApprovalRequested, e.GetTaskId(), k.ApprovalRequested.GetApprovalId(), p.decisionHelp)
	case *pb.Event_ApprovalDecided:
		text = settledText(settled, decidedText(k.ApprovalDecided), p.look.more)
	case *pb.Event_ApprovalExpired:
		text = settledText(settled, "denied, since nobody decided in time", p.look.more)
	case *pb.Event_CallClosed:
		if text = deniedText(k.CallClosed.GetDenial()); text == "" {
			return nil
		}
	default:
		return nil
	}
	return p.tell(n, text)
}

// tell says something of a task, with as many colours as the terminal has.
func (p *plainView) tell(n *node, text string) error {
	_, err := lipgloss.Fprintf(p.out, "%s%s %s: %s\n", strings.Repeat("  ", n.depth), p.look.mark(n.state, -1), nameText(n), text)
	return err
}

// nameText is what a task is called.
func nameText(n *node) string {
	if n.shell {
		return shellName + " " + safeLine(n.description)
	}
	if d := safeLine(n.description); d != "" {
		return safeLine(n.agent) + " " + `"` + d + `"`
	}
	return safeLine(n.agent)
}

// resultText says how a task ended and what it took.
func resultText(n *node) string {
	return fmt.Sprintf("%s after %s (%s, %s)", stateText(n.state), durationText(n.elapsed(n.end)),
		callsText(n.tools, n.denied), n.spent.text("tokens"))
}

// stateText is the name of a state in small letters.
func stateText(s pb.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

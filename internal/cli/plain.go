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

// plainView shows a session in permanent lines: when a task starts, when it ends, and some of what
// happens between. Lines are indented by depth.
type plainView struct {
	out          io.Writer
	theme        theme
	forest       *forest
	decisionHelp decisionHelp
	after        int64 // events up to this one are applied and not shown
	lost         int   // how often the stream has broken in a row

	mu    sync.Mutex // protects the forest and the output
	stall stallDetector
}

// reportLostAfter is how often a stream must break in a row before that is reported. A single
// break is repaired at once by this or another replica.
const reportLostAfter = 2

// step processes a step of the watch.
func (p *plainView) step(step *pb.WatchSessionResponse) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch k := step.GetStep().(type) {
	case *pb.WatchSessionResponse_Event:
		return p.applyEvent(k.Event)
	case *pb.WatchSessionResponse_Delta:
		if n := p.forest.nodes[k.Delta.GetTaskId()]; n != nil && k.Delta.GetRestart() {
			return p.printLine(n, safeLine(restartText(k.Delta)))
		}
	}
	return nil
}

// connectionLost counts a broken stream, and reports whether to print that.
func (p *plainView) connectionLost() bool {
	p.lost++
	return p.lost == reportLostAfter
}

// connectionBack resets the count, and reports whether the loss was printed.
func (p *plainView) connectionBack() bool {
	told := p.lost >= reportLostAfter
	p.lost = 0
	return told
}

// stallCheckInterval is how often the session is checked for a stall.
const stallCheckInterval = time.Second

// watchStalls starts to check whether the session is stalled, for which there is no event, and
// prints the reason that why returns. stop ends the checks and waits.
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
					p.printQueued(why(ctx))
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

// printQueued prints which task waits for a worker, and why. A write error is ignored here; the
// next line reports it.
func (p *plainView) printQueued(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.forest.queued()
	if len(all) == 0 {
		return // no longer stalled
	}
	text := "queued: " + why
	if more := len(all) - 1; more > 0 {
		text = fmt.Sprintf("queued, and %d more: %s", more, why)
	}
	_ = p.printLine(all[0], text)
}

// applyEvent applies an event and prints it.
func (p *plainView) applyEvent(e *pb.Event) error {
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
			text = "its worker was lost; another worker continues"
		case pb.ReadyCause_READY_CAUSE_MADE_WAY:
			text = "waits until the budget allows another call"
		default:
			return nil
		}
	case *pb.Event_Backgrounded:
		text = "continues in the background"
	case *pb.Event_HookRan:
		text = hookText(k.HookRan)
	case *pb.Event_CallbackEnded:
		text = callbackText(k.CallbackEnded)
	case *pb.Event_Result:
		text = resultText(n)
		if w := reasonText(k.Result.GetReason(), k.Result.GetDetail()); w != "" {
			text += p.theme.separator + w
		}
	case *pb.Event_ApprovalRequested:
		text = askText(k.ApprovalRequested, e.GetTaskId(), k.ApprovalRequested.GetApprovalId(), p.decisionHelp)
	case *pb.Event_ApprovalDecided:
		text = settledText(settled, decidedText(k.ApprovalDecided), p.theme.ellipsis)
	case *pb.Event_ApprovalExpired:
		text = settledText(settled, "denied because it was not decided in time", p.theme.ellipsis)
	case *pb.Event_CallClosed:
		if text = deniedText(k.CallClosed.GetDenial()); text == "" {
			return nil
		}
	default:
		return nil
	}
	return p.printLine(n, text)
}

// printLine prints a line about a task, with as many colours as the terminal supports.
func (p *plainView) printLine(n *node, text string) error {
	_, err := lipgloss.Fprintf(p.out, "%s%s %s: %s\n", strings.Repeat("  ", n.depth), p.theme.mark(n.state, -1), nameText(n), text)
	return err
}

// nameText returns the display name of a task.
func nameText(n *node) string {
	if n.shell {
		return shellName + " " + safeLine(n.description)
	}
	if d := safeLine(n.description); d != "" {
		return safeLine(n.agent) + " " + `"` + d + `"`
	}
	return safeLine(n.agent)
}

// resultText says how a task ended and what it used.
func resultText(n *node) string {
	return fmt.Sprintf("%s after %s (%s, %s)", stateText(n.state), durationText(n.elapsed(n.end)),
		callsText(n.tools, n.denied), n.spent.text("tokens"))
}

// stateText returns the name of a state in lower case.
func stateText(s pb.TaskState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "TASK_STATE_"))
}

package worker

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/loop"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
	"github.com/coppice-run/coppice/internal/workspace"
)

// commandEndTimeout is how long a worker that stops tries to report how its commands ended.
const commandEndTimeout = 2 * time.Second

// backgroundCommand is a command that has become a task and belongs to this worker.
type backgroundCommand struct {
	claim   *pb.Claim // as if the task had been claimed
	command *tool.Command
	place   *workspace.Place
}

// setShell makes a child a command.
func setShell(child *pb.SpawnChild, c *tool.Command) {
	child.Shell = &pb.ShellChild{
		Command: strings.ToValidUTF8(c.Line, "\uFFFD"), Nonce: rand.Uint64(), OutputFile: c.Output, BackgroundedByUser: c.ByUser,
	}
	child.Timeout = durationpb.New(c.Timeout)
}

// spawnRequest is a request for children.
type spawnRequest struct {
	*request
	journal  *journal
	children []loop.Child
}

// Wait returns the answer, and starts to run the commands that have become tasks.
func (s *spawnRequest) Wait(ctx context.Context) (loop.Reply, error) {
	reply, err := s.request.Wait(ctx)
	if err != nil {
		return reply, err
	}
	for _, l := range s.response.GetAck().GetLaunched() {
		for i, c := range s.children {
			if c.Command == nil || c.Block != int(l.GetBlock()) {
				continue
			}
			c.Command.Take()
			s.journal.launch(&backgroundCommand{command: c.Command, claim: &pb.Claim{
				SessionId: s.journal.conn.sessionID(), TaskId: l.GetTaskId(), Epoch: l.GetEpoch(),
				Nonce: s.req.GetSpawn().GetChildren()[i].GetShell().GetNonce(),
			}})
		}
	}
	return reply, nil
}

// launch runs a command outside of the slots, until it ends or workCtx ends.
func (w *Worker) launch(workCtx context.Context, c *backgroundCommand) {
	w.commands.Go(func() { w.runCommand(workCtx, c) })
}

// runCommand runs a command over a connection of its own, and reports its output and how it ends.
// The command is killed when its task is ended by somebody else, and when the worker stops.
func (w *Worker) runCommand(workCtx context.Context, c *backgroundCommand) {
	log := w.Logger.With("session_id", c.claim.GetSessionId(), "task_id", c.claim.GetTaskId(), "epoch", c.claim.GetEpoch())
	ctx, kill := context.WithCancel(workCtx)
	defer kill()
	conn := w.newConn()
	conn.requiredFeature = wire.FeatureCommands
	j := conn.beginClaimed(kill, c.claim)
	connCtx, closeConn := context.WithCancel(context.WithoutCancel(workCtx))
	var keeping sync.WaitGroup
	keeping.Go(func() { conn.stayConnected(connCtx) })
	defer keeping.Wait()
	defer closeConn()
	var last *request
	end := c.command.Run(ctx, func(output string) {
		if last == nil || last.isDone() {
			last = j.reportOutput(output)
		}
	})
	if err := c.place.Leave(); err != nil {
		log.WarnContext(ctx, "leaving the workspace failed", "error", err)
	}
	log.InfoContext(ctx, "a command has ended", "reason", end.Reason, "detail", end.Detail)
	ended := j.endCommand(end)
	select {
	case <-ended.answered:
	case <-workCtx.Done():
		ended.waitAtMost(commandEndTimeout)
	}
}

// reportOutput reports the end of a command's output.
func (j *journal) reportOutput(output string) *request {
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_Progress{Progress: &pb.Progress{Output: output}}})
}

// endCommand reports how a command ended.
func (j *journal) endCommand(end tool.CommandEnd) *request {
	e := &pb.CommandEnd{Output: end.Output}
	if end.Reason != tree.ReasonUnspecified {
		e.Failure = &pb.Failure{Reason: pb.Reason(end.Reason), Detail: end.Detail}
	}
	return j.send(&pb.WorkRequest{Kind: &pb.WorkRequest_CommandEnd{CommandEnd: e}})
}

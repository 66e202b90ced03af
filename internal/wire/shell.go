package wire

import (
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// shellFrom parses the command that a child is; nil if the child is an agent.
func shellFrom(c *pb.SpawnChild) *tree.Shell {
	s := c.GetShell()
	if s == nil {
		return nil
	}
	return &tree.Shell{
		Line: s.GetCommand(), Nonce: s.GetNonce(), File: s.GetOutputFile(), ByUser: s.GetBackgroundedByUser(),
		Timeout: c.GetTimeout().AsDuration().Truncate(time.Microsecond),
	}
}

// ShellBlocks returns the blocks of the calls for which a request asks to start commands.
func ShellBlocks(s *pb.Spawn) []int {
	var blocks []int
	for _, c := range s.GetChildren() {
		if c.GetShell() != nil {
			blocks = append(blocks, int(c.GetBlock()))
		}
	}
	return blocks
}

// Launched converts the commands that have become tasks.
func Launched(all []tree.Launch) []*pb.LaunchedCommand {
	var out []*pb.LaunchedCommand
	for _, l := range all {
		out = append(out, &pb.LaunchedCommand{Block: int32(l.Block), TaskId: id(l.Task), Epoch: l.Epoch})
	}
	return out
}

func commandEndFrom(e *pb.CommandEnd, from tree.From) tree.EndShell {
	end := tree.EndShell{From: from, Output: e.GetOutput()}
	if f := e.GetFailure(); f != nil {
		if end.Reason = tree.Reason(f.GetReason()); end.Reason == tree.ReasonUnspecified {
			end.Reason = tree.ReasonUnknown
		}
		end.Detail = f.GetDetail()
	}
	return end
}

// shellOutput returns the part of an output that only commands have.
func shellOutput(t *tree.Task, out tree.Output) *pb.ShellOutput {
	return &pb.ShellOutput{Command: out.Prompt, Error: out.Error, Reason: pb.Reason(t.Reason)}
}

package wire_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// TestCommandsAreRead: requests that start a command, and those of the command's worker, are
// parsed.
func TestCommandsAreRead(t *testing.T) {
	t.Parallel()
	from := tree.From{Task: tree.TaskID{1}, Seq: 4}
	target := tree.TaskID{6: 0x70, 8: 0x80, 15: 2}
	for _, tt := range []struct {
		req  *pb.WorkRequest
		want tree.Command
	}{
		{&pb.WorkRequest{Kind: &pb.WorkRequest_Spawn{Spawn: &pb.Spawn{Children: []*pb.SpawnChild{{
			Block: 2, Description: "d", Timeout: durationpb.New(time.Minute),
			Shell: &pb.ShellChild{Command: "make", Nonce: 7, OutputFile: "f", BackgroundedByUser: true},
		}}}}}, tree.SpawnCalls{From: from, Children: []tree.CallChild{{
			Block: 2, Child: tree.Child{Description: "d", Timeout: time.Minute},
			Shell: &tree.Shell{Line: "make", Nonce: 7, File: "f", ByUser: true, Timeout: time.Minute},
		}}}},
		{
			&pb.WorkRequest{Kind: &pb.WorkRequest_Progress{Progress: &pb.Progress{Output: "o"}}},
			tree.Report{From: from, Output: "o"},
		},
		{
			&pb.WorkRequest{Kind: &pb.WorkRequest_WaitFor{WaitFor: &pb.WaitFor{Block: 1, TaskId: target.String(), Stop: true}}},
			tree.AwaitTask{From: from, Block: 1, Target: target, Stop: true},
		},
		{
			&pb.WorkRequest{Kind: &pb.WorkRequest_CommandEnd{CommandEnd: &pb.CommandEnd{Output: "o"}}},
			tree.EndShell{From: from, Output: "o"},
		},
		{
			&pb.WorkRequest{Kind: &pb.WorkRequest_CommandEnd{CommandEnd: &pb.CommandEnd{Failure: &pb.Failure{Detail: "d"}}}},
			tree.EndShell{From: from, Reason: tree.ReasonUnknown, Detail: "d"},
		},
	} {
		got, err := wire.CommandFrom(tt.req, from, func(*tree.Child) {})
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%v is read as\n%+v, %v, want\n%+v", tt.req, got, err, tt.want)
		}
	}
}

func TestOutputOfACommand(t *testing.T) {
	t.Parallel()
	task := &tree.Task{Kind: tree.KindShell, CurrentRun: tree.CurrentRun{State: tree.StateFailed, Reason: tree.ReasonToolError}}
	out := wire.Output(task, tree.Output{Prompt: "make", Output: "o", Error: "exit code 2"}, true)
	shell := out.GetShell()
	if out.GetKind() != pb.TaskKind_TASK_KIND_SHELL || out.GetOutput() != "o" || !out.GetCut() ||
		shell.GetCommand() != "make" || shell.GetError() != "exit code 2" || shell.GetReason() != pb.Reason_REASON_TOOL_ERROR {
		t.Errorf("the output is %v", out)
	}
}

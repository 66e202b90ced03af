package wire_test

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// TestSpawnIsReadWhole: each field of a child in a request makes a difference.
func TestSpawnIsReadWhole(t *testing.T) {
	t.Parallel()
	child := &pb.SpawnChild{
		Block: 1, Agent: "a", Description: "d", Prompt: "p", Model: "m", ResumeTaskId: tree.TaskID{6: 0x70, 8: 0x80, 15: 2}.String(),
		Background: true, Context: []string{"c"}, MaxIterations: 2, Timeout: durationpb.New(time.Minute),
		Join: pb.JoinPolicy_JOIN_POLICY_ANY, JoinTimeout: durationpb.New(time.Hour), JoinNeed: 3, ForkContext: true,
		Shell: &pb.ShellChild{Command: "make"},
	}
	read := func(c *pb.SpawnChild) tree.Command {
		cmd, err := wire.CommandFrom(&pb.WorkRequest{Kind: &pb.WorkRequest_Spawn{Spawn: &pb.Spawn{Children: []*pb.SpawnChild{c}}}},
			tree.From{}, func(*tree.Child) {})
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	fields := child.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		less := proto.CloneOf(child)
		less.ProtoReflect().Clear(field)
		if !child.ProtoReflect().Has(field) {
			t.Errorf("%s is not tried: give the child of this test one", field.Name())
		} else if reflect.DeepEqual(read(child), read(less)) {
			t.Errorf("%s is not read", field.Name())
		}
	}
}

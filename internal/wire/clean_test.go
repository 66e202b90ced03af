package wire_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// censor replaces each "bad" with an x.
type censor struct{}

func (censor) String(text string) string { return strings.ReplaceAll(text, "bad", "x") }
func (censor) JSON(text string) string   { return strings.ReplaceAll(text, "bad", "j") }

func TestClean(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ in, want proto.Message }{
		{&pb.Spawn{Children: []*pb.SpawnChild{{Prompt: "a bad one", Context: []string{"bad", "good"}, Block: 1}}},
			&pb.Spawn{Children: []*pb.SpawnChild{{Prompt: "a x one", Context: []string{"x", "good"}, Block: 1}}}},
		{&pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "bad"}, Metadata: map[string]string{"bad": "1", "a": "bad", "b": "c"}},
			&pb.CreateSessionRequest{Message: &pb.UserMessage{Text: "x"}, Metadata: map[string]string{"x": "1", "a": "x", "b": "c"}}},
		{&pb.WorkRequest{Seq: 7, Kind: &pb.WorkRequest_Append{Append: &pb.Append{Message: &pb.Message{Model: "bad", Blocks: []*pb.Block{
			{Kind: &pb.Block_Thinking{Thinking: &pb.ThinkingBlock{Text: "good", Signature: "s"}}},
			{Kind: &pb.Block_Thinking{Thinking: &pb.ThinkingBlock{Text: "bad", Signature: "s"}}},
			{Kind: &pb.Block_ToolUse{ToolUse: &pb.ToolUseBlock{Name: "bad", ProviderId: "bad", InputJson: `"bad"`}}},
		}}}}}, &pb.WorkRequest{Seq: 7, Kind: &pb.WorkRequest_Append{Append: &pb.Append{Message: &pb.Message{Model: "x", Blocks: []*pb.Block{
			{Kind: &pb.Block_Thinking{Thinking: &pb.ThinkingBlock{Text: "good", Signature: "s"}}},
			{Kind: &pb.Block_Thinking{Thinking: &pb.ThinkingBlock{Text: "x"}}},
			{Kind: &pb.Block_ToolUse{ToolUse: &pb.ToolUseBlock{Name: "x", ProviderId: "x", InputJson: `"j"`}}},
		}}}}}},
		{&pb.ImportSessionRequest{Piece: &pb.ImportSessionRequest_Lines{Lines: []byte("bad")}},
			&pb.ImportSessionRequest{Piece: &pb.ImportSessionRequest_Lines{Lines: []byte("bad")}}},
	} {
		if wire.Clean(test.in, censor{}); !proto.Equal(test.in, test.want) {
			t.Errorf("got %v, want %v", test.in, test.want)
		}
	}
	wire.Clean(nil, censor{})
}

func TestCleanStatus(t *testing.T) {
	t.Parallel()
	_, refused := wire.Status(tree.ErrBadInput.With("a bad one"))
	clean := status.Convert(wire.CleanStatus(refused, censor{}))
	if clean.Code() != codes.InvalidArgument || strings.Contains(clean.Message(), "bad") || !strings.Contains(clean.Message(), "a x one") {
		t.Errorf("got %v", clean)
	}
	if len(clean.Details()) != 1 {
		t.Errorf("the details are %v", clean.Details())
	}
	if err := wire.CleanStatus(nil, censor{}); err != nil {
		t.Errorf("no error became %v", err)
	}
}

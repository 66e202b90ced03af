package wire

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// FuzzDecodeBody: a stored body that can be decoded is the same after it is encoded again. Any
// other is an error.
func FuzzDecodeBody(f *testing.F) {
	m := whole()
	f.Add(EncodeBody(&m))
	f.Add([]byte(nil))
	f.Add(encode(&pb.Message{Blocks: []*pb.Block{{}}}))
	f.Add(encode(&pb.Message{Model: "m", StopReason: 300, Usage: &pb.Usage{InputTokens: -1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var once, twice tree.Message
		if DecodeBody(data, &once) != nil {
			return
		}
		if err := DecodeBody(EncodeBody(&once), &twice); err != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("%+v came back as %+v, %v", once, twice, err)
		}
	})
}

// FuzzDecodeEvent does the same with a stored event.
func FuzzDecodeEvent(f *testing.F) {
	f.Add(EncodeEvent(&tree.Event{Seq: 1, Task: tree.TaskID{1}, Run: 1, Kind: tree.Started{Parent: tree.TaskID{2}, Agent: "a"}}))
	f.Add(EncodeEvent(&tree.Event{Seq: 1 << 62, Kind: tree.MessageAppended{Calls: []tree.OpenedCall{{Block: 1, Tool: "t"}}}}))
	f.Add([]byte{0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := DecodeEvent(data)
		if err != nil {
			return
		}
		if twice, err := DecodeEvent(encode(once)); err != nil || !proto.Equal(once, twice) {
			t.Errorf("%v came back as %v, %v", once, twice, err)
		}
	})
}

// FuzzAttempt: a worker's request for an attempt is taken as it is, or refused.
func FuzzAttempt(f *testing.F) {
	f.Add(tree.SessionID{1}.String(), tree.TaskID{2}.String(), int64(1), uint64(1)<<63, "w")
	f.Add(tree.SessionID{}.String(), tree.TaskID{2}.String(), int64(-1), uint64(0), "")
	f.Add("", "{"+tree.TaskID{2}.String()[2:]+"}", int64(0), uint64(0), "\x00")
	f.Fuzz(func(t *testing.T, session, task string, epoch int64, nonce uint64, worker string) {
		token := tree.Token{Epoch: epoch, Nonce: nonce}
		s, claim, err := ClaimFrom(&pb.Claim{SessionId: session, TaskId: task, Epoch: epoch, Nonce: nonce, WorkerId: worker})
		again, reattach, refused := ReattachFrom(&pb.Reattach{SessionId: session, TaskId: task, Epoch: epoch, Nonce: nonce})
		if (err == nil) != (refused == nil) {
			t.Fatalf("as a claim %v, as a reattachment %v", err, refused)
		}
		if err != nil {
			if claim != (tree.Claim{}) || reattach != (tree.Reattach{}) {
				t.Errorf("refused, and read as %+v and %+v", claim, reattach)
			}
			return
		}
		if s.IsZero() || claim.Task.IsZero() || s != again || claim != (tree.Claim{Task: claim.Task, Token: token, Worker: worker}) ||
			reattach != (tree.Reattach{Task: claim.Task, Token: token}) {
			t.Errorf("%s: %+v, %s: %+v", s, claim, again, reattach)
		}
	})
}

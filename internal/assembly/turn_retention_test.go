package assembly_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestRetention: a session in which nothing happens goes by itself; one with work
// under way stays. Titles come from the first message, or are given.
func TestRetention(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{when: {prompt: stay}, delay: 1h, text: late}, {text: done}]`, func(d *assembly.Dev) { d.RetainSessions = 2 * time.Second })
	stays, goes := c.create("stay").GetId(), c.create("").GetId()
	if _, err := c.SendMessage(c.ctx(), &pb.SendMessageRequest{SessionId: goes, Message: &pb.UserMessage{Text: "the first words"}}); err != nil {
		t.Fatal(err)
	}
	got, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: goes})
	if err != nil || got.GetSession().GetTitle() != "the first words" {
		t.Errorf("the session is %v, %v", got, err)
	}
	named, err := c.UpdateSession(c.ctx(), &pb.UpdateSessionRequest{SessionId: goes, Title: "another"})
	if err != nil || named.GetSession().GetTitle() != "another" {
		t.Errorf("the renamed session is %v, %v", named, err)
	}
	stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: goes})
	if err != nil {
		t.Fatal(err)
	}
	var last *pb.Event
	for err == nil {
		var resp *pb.WatchSessionResponse
		if resp, err = stream.Recv(); err == nil {
			last = resp.GetEvent()
		}
	}
	if status.Code(err) != codes.NotFound || last.GetSessionChanged().GetChange() != pb.SessionChange_SESSION_CHANGE_DELETED {
		t.Errorf("the watch ended after %v with %v", last, err)
	}
	if _, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: stays}); err != nil {
		t.Errorf("the session with work under way: %v", err)
	}
}

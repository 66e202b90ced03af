package assembly_test

import (
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestSessionsMayGoWhileTheyAreExamined: who looks at all sessions looks at those that are
// there; one that is deleted meanwhile is no error.
func TestSessionsMayGoWhileTheyAreExamined(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{text: ok}]`, nil)
	c.create("")
	var goes []string
	for range 100 {
		goes = append(goes, c.create("").GetId())
	}
	deleted := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < len(goes) && err == nil; i++ { // a page has them the other way round
			_, err = c.DeleteSession(c.ctx(), &pb.DeleteSessionRequest{SessionId: goes[i]})
		}
		deleted <- err
	}()
	for over := false; !over; {
		select {
		case err := <-deleted:
			if over = true; err != nil {
				t.Error(err)
			}
		default:
		}
		resp, err := c.Diagnose(c.ctx(), &pb.DiagnoseRequest{PageSize: 1000})
		if err != nil || over && resp.GetSessions() != 1 {
			t.Fatalf("with all deleted: %t: %v, %v", over, resp, err)
		}
	}
}

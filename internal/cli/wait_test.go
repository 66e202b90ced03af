package cli

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// waiter answers WaitTask with one after another; an error of nil is a run that goes on.
type waiter struct {
	pb.TaskServiceClient
	answers []error
	after   time.Duration // how long an answer takes, if it is waited for
	asked   []time.Duration
}

func (w *waiter) WaitTask(_ context.Context, req *pb.WaitTaskRequest, _ ...grpc.CallOption) (*pb.WaitTaskResponse, error) {
	w.asked = append(w.asked, req.GetTimeout().AsDuration())
	time.Sleep(min(w.after, req.GetTimeout().AsDuration()))
	if len(w.asked) > len(w.answers) {
		return &pb.WaitTaskResponse{Ended: true}, nil
	}
	return &pb.WaitTaskResponse{}, w.answers[len(w.asked)-1]
}

// TestAWaitGoesOn over another connection, once there was one.
func TestAWaitGoesOn(t *testing.T) {
	t.Parallel()
	gone, unknown := status.Error(codes.Unavailable, "the replica is stopping"), status.Error(codes.NotFound, "no such task")
	soon := time.Minute
	for name, test := range map[string]struct {
		answers []error
		after   time.Duration
		timeout *time.Duration
		asked   int
		want    codes.Code
		ended   bool
	}{
		"an orchestrator stops":     {[]error{nil, gone, gone, nil, gone}, 0, nil, 6, codes.OK, true},
		"each stops while it waits": {[]error{nil, gone, gone, gone}, patience + 1, nil, 5, codes.OK, true},
		"nobody is there":           {[]error{gone}, 0, nil, 1, codes.Unavailable, false},
		"the task is deleted":       {[]error{nil, unknown}, 0, nil, 2, codes.NotFound, false},
		"the time is up":            {[]error{nil, nil, gone}, 0, &soon, 2, codes.OK, false},
		"a moment, and it is not":   {[]error{nil}, 0, new(time.Duration), 1, codes.OK, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tasks := &waiter{answers: test.answers, after: test.after}
				resp, err := (&waitCommand{Timeout: test.timeout}).wait(t.Context(), &client{tasks: tasks}, "s", "t")
				if status.Code(err) != test.want || resp.GetEnded() != test.ended || len(tasks.asked) != test.asked {
					t.Errorf("there is %v, %v after %v", resp, err, tasks.asked)
				}
			})
		})
	}
}

// TestAWaitGivesUp when nobody can be reached for long.
func TestAWaitGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks := &waiter{answers: make([]error, 10_000)}
		for i := range tasks.answers[1:] {
			tasks.answers[i+1] = status.Error(codes.Unavailable, "gone")
		}
		begun := time.Now()
		_, err := new(waitCommand).wait(t.Context(), &client{tasks: tasks}, "s", "t")
		if took := time.Since(begun); status.Code(err) != codes.Unavailable || took < patience || took > 2*patience {
			t.Errorf("there is %v after %s", err, took)
		}
	})
}

// TestAWaitKeepsItsTime though nobody can be reached any more.
func TestAWaitKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tasks := &waiter{answers: make([]error, 10_000)}
		for i := range tasks.answers[1:] {
			tasks.answers[i+1] = status.Error(codes.Unavailable, "gone")
		}
		begun, soon := time.Now(), time.Second
		resp, err := (&waitCommand{Timeout: &soon}).wait(t.Context(), &client{tasks: tasks}, "s", "t")
		if took := time.Since(begun); err != nil || resp == nil || resp.GetEnded() || took != soon {
			t.Errorf("after %s there is %v, %v", took, resp, err)
		}
	})
}

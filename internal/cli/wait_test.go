package cli

import (
	"bytes"
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
		"each stops while it waits": {[]error{nil, gone, gone, gone}, retryTimeout + 1, nil, 5, codes.OK, true},
		"nobody is there":           {[]error{gone}, 0, nil, 1, codes.Unavailable, false},
		"the task is deleted":       {[]error{nil, unknown}, 0, nil, 2, codes.NotFound, false},
		"the time is up":            {[]error{nil, nil, nil, nil, nil, nil, gone}, time.Hour, &soon, 6, codes.OK, false},
		"a moment, and it is not":   {[]error{nil}, 0, new(time.Duration), 1, codes.OK, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tasks := &waiter{answers: test.answers, after: test.after}
				resp, err := (&waitCommand{Timeout: test.timeout}).wait(t.Context(), &client{tasks: tasks}, "s", "t", func(*pb.WaitTaskResponse) {})
				if status.Code(err) != test.want || resp.GetEnded() != test.ended || len(tasks.asked) != test.asked {
					t.Errorf("there is %v, %v after %v", resp, err, tasks.asked)
				}
			})
		})
	}
}

// asker lists one open approval, once it was asked so often.
type asker struct {
	pb.ApprovalServiceClient
	after int
	looks int
	err   error
}

func (a *asker) ListApprovals(context.Context, *pb.ListApprovalsRequest, ...grpc.CallOption) (*pb.ListApprovalsResponse, error) {
	a.looks++
	if a.looks <= a.after || a.err != nil {
		return &pb.ListApprovalsResponse{}, a.err
	}
	return &pb.ListApprovalsResponse{Approvals: []*pb.Approval{{Id: "00000000-0000-7000-8000-0000deadbeef", Tool: "ls", Argument: "."}}}, nil
}

// TestAWaitSaysWhatItWaitsFor as soon as it sees it, once, and goes on.
func TestAWaitSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	const says = `coppice: waiting: may ls "." run? coppice approve --orchestrator b:1 deadbeef, or coppice deny --orchestrator b:1 deadbeef` + "\n"
	none := time.Duration(0)
	for name, test := range map[string]struct {
		approvals asker
		timeout   *time.Duration
		says      string
	}{
		"at first":           {asker{}, nil, says},
		"later":              {asker{after: 2}, nil, says},
		"after a look alone": {asker{}, &none, says},
		"nobody asks":        {asker{after: 100}, nil, ""},
		"it can't be known":  {asker{err: status.Error(codes.PermissionDenied, "no")}, nil, "coppice: reading the approvals of the session failed: listing the approvals: no (PERMISSION_DENIED)\n"},
		"not at the moment":  {asker{err: status.Error(codes.Unavailable, "gone")}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				a, c := &app{Process: Process{Stderr: &said}}, &client{tasks: &waiter{answers: make([]error, 5), after: time.Hour}, approvals: &test.approvals}
				w := &waitCommand{Timeout: test.timeout, remote: remote{Orchestrator: "b:1"}}
				resp, err := w.wait(t.Context(), c, "s", "t", a.waitReporter(a.approvalReporter(t.Context(), c, "s", w.decisionHelp(a))))
				if err != nil || resp.GetEnded() != (test.timeout == nil) || said.String() != test.says {
					t.Errorf("there is %v, %v: %s", resp, err, &said)
				}
			})
		})
	}
}

// TestAWaitNamesAMissingMessage once, because nothing runs before there is one.
func TestAWaitNamesAMissingMessage(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	a := &app{Process: Process{Stderr: &said}}
	tell := a.waitReporter(func() { t.Error("the approvals were read") })
	for range 2 {
		tell(&pb.WaitTaskResponse{Task: &pb.Task{State: pb.TaskState_TASK_STATE_NEW}})
	}
	if said.String() != "coppice: waiting: the task has had no message yet; coppice send gives it one\n" {
		t.Errorf("it says %q", &said)
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
		_, err := new(waitCommand).wait(t.Context(), &client{tasks: tasks}, "s", "t", func(*pb.WaitTaskResponse) {})
		if took := time.Since(begun); status.Code(err) != codes.Unavailable || took < retryTimeout || took > 2*retryTimeout {
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
		resp, err := (&waitCommand{Timeout: &soon}).wait(t.Context(), &client{tasks: tasks}, "s", "t", func(*pb.WaitTaskResponse) {})
		if took := time.Since(begun); err != nil || resp == nil || resp.GetEnded() || took != soon {
			t.Errorf("after %s there is %v, %v", took, resp, err)
		}
	})
}

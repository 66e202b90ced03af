package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// opener serves streams of sessions: on the first ones it does what the faults say, and then
// answers everything.
type opener struct {
	pb.UnimplementedSessionServiceServer
	pb.UnimplementedApprovalServiceServer
	faults []func(stream pb.SessionService_CreateSessionsServer) error
	asked  map[int64][]string // keys, by number
	waits  []time.Duration
	may    []string // what sub-agents' questions become, and what asks, of each request

	approvals int32      // that are open in each session
	listed    [][]string // their ids as they are listed, one time after another; of no more is it known that they can't be
}

func (o *opener) ListApprovals(_ context.Context, req *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	if len(o.listed) == 0 || req.GetSessionId() != "s" {
		return nil, status.Error(codes.PermissionDenied, "not yours")
	}
	resp := &pb.ListApprovalsResponse{}
	for _, id := range o.listed[0] {
		resp.Approvals = append(resp.Approvals, &pb.Approval{Id: id, SessionId: "s"})
	}
	o.listed = o.listed[1:]
	return resp, nil
}

func (o *opener) CreateSessions(stream pb.SessionService_CreateSessionsServer) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	if len(o.faults) > 0 {
		fault := o.faults[0]
		o.faults = o.faults[1:]
		return fault(stream)
	}
	for {
		if err := o.answer(stream, true); err != nil {
			return err
		}
	}
}

// answer answers one request, with an end or without.
func (o *opener) answer(stream pb.SessionService_CreateSessionsServer, ended bool) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	n := req.GetNumber()
	o.waits = append(o.waits, req.GetSession().GetWait().AsDuration())
	o.asked[n] = append(o.asked[n], req.GetSession().GetIdempotencyKey())
	may := req.GetSession().GetPermissions()
	o.may = append(o.may, fmt.Sprintf("%s%s", may.GetApprovals(), may.GetAsk()))
	return stream.Send(&pb.CreateSessionsResponse{Number: n, Outcome: &pb.CreateSessionsResponse_Opened{Opened: &pb.CreateSessionResponse{
		Ended: ended, Session: &pb.Session{Id: "s", OpenApprovals: o.approvals}, Root: &pb.Task{State: pb.TaskState_TASK_STATE_COMPLETED, Result: "to " + req.GetSession().GetMessage().GetText()},
	}}})
}

// run has a batch run at the opener, and gives what it has said.
func (o *opener) run(t *testing.T, name, lines string, flags ...string) (out, complaints string, code int) {
	t.Helper()
	o.asked = map[int64][]string{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterSessionServiceServer(server, o)
	pb.RegisterApprovalServiceServer(server, o)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	if name != "" {
		flags = append([]string{"--name", name}, flags...)
	}
	var stdout, stderr bytes.Buffer
	code = Main(t.Context(), Process{
		Args:  append([]string{"batch", "--orchestrator", listener.Addr().String(), "--at-once", "3"}, flags...),
		Stdin: strings.NewReader(lines), Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
	})
	server.Stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		t.Error(err)
	}
	return stdout.String(), stderr.String(), code
}

// asking is what is said of a session that waits for an approval.
var asking = regexp.MustCompile(`(?m)^coppice: line 1 waits for an approval: coppice approvals --orchestrator 127\.0\.0\.1:[0-9]+ s$`)

// TestABatchGoesOn over another stream, with the keys of the first and with what has had no
// answer.
func TestABatchGoesOn(t *testing.T) {
	t.Parallel()
	const lines = "one\n\ntwo\nthree\nfour\nfive\n"
	o := &opener{}
	o.faults = []func(pb.SessionService_CreateSessionsServer) error{
		func(stream pb.SessionService_CreateSessionsServer) error { // stops after two
			for range 2 {
				if err := o.answer(stream, true); err != nil {
					return err
				}
			}
			return status.Error(codes.Unavailable, "stopping")
		},
		noDatabase,
		func(stream pb.SessionService_CreateSessionsServer) error { // ends for no reason, after a wait that was too short
			return o.answer(stream, false)
		},
	}
	out, complaints, code := o.run(t, "night", lines)
	if code != exitOK {
		t.Errorf("it ended with %d: %s", code, complaints)
	}
	for _, answer := range []string{"   1  ✓ completed    to one", "   3  ✓ completed    to two", "   6  ✓ completed    to five"} {
		if strings.Count(out, strings.ReplaceAll(answer, "✓", "+")) != 1 {
			t.Errorf("%q is not once in:\n%s", answer, out)
		}
	}
	const reconnected = "coppice: the connection is lost; reconnecting\ncoppice: connected again\n"
	if !strings.Contains(out, "5 sessions in ") || complaints != reconnected+reconnected {
		t.Errorf("it said:\n%s%s", out, complaints)
	}
	if numbers := slices.Sorted(maps.Keys(o.asked)); !slices.Equal(numbers, []int64{1, 3, 4, 5, 6}) {
		t.Errorf("asked for were %v", numbers)
	}
	for number, keys := range o.asked {
		for _, key := range keys {
			if key != fmt.Sprint("night/", number) {
				t.Errorf("number %d had the keys %q", number, keys)
			}
		}
	}
}

// TestABatchSaysWhatWaitsForAnApproval soon, once for what is open together, or if that can't be
// told, and goes on with it.
func TestABatchSaysWhatWaitsForAnApproval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listed [][]string
		told   int
	}{
		"the same":           {[][]string{{"a", "b"}, {"a", "b"}, {"b"}, {"b"}, {"b"}, {"b"}, {"b"}}, 1},
		"one after another":  {[][]string{{"a"}, {"b"}, {"b"}, {"b", "c"}, {"c"}, {}, {"d"}}, 4},
		"it can't be listed": {nil, 1},
	} {
		o := &opener{approvals: 1, listed: c.listed}
		o.faults = []func(pb.SessionService_CreateSessionsServer) error{func(stream pb.SessionService_CreateSessionsServer) error {
			for _, ended := range []bool{false, false, false, false, false, false, false, true} {
				if err := o.answer(stream, ended); err != nil {
					return err
				}
			}
			<-stream.Context().Done()
			return nil
		}}
		_, complaints, code := o.run(t, "night", "one\n")
		if told := len(asking.FindAllString(complaints, -1)); code != exitOK || told != c.told || strings.Count(complaints, "\n") != told {
			t.Errorf("%s: exit code %d, told %d times, want %d:\n%s", name, code, told, c.told, complaints)
		}
		if want := []float64{2, 4, 8, 16, 32, 60, 60, 60}; !slices.EqualFunc(o.waits, want, func(a time.Duration, seconds float64) bool { return a.Seconds() == seconds }) {
			t.Errorf("%s: it waited for %s", name, o.waits)
		}
	}
}

// TestABatchSaysWhoAnswers also for lines with permissions of their own that leave it unsaid.
func TestABatchSaysWhoAnswers(t *testing.T) {
	t.Parallel()
	const lines = "plain\n" +
		`{"message": {"text": "own rules"}, "permissions": {"ask": ["bash"]}}` + "\n" +
		`{"message": {"text": "says so"}, "permissions": {"approvals": "SUBAGENT_APPROVALS_ESCALATE"}}` + "\n"
	for _, c := range []struct{ flag, want string }{
		{"--approvals=deny", "SUBAGENT_APPROVALS_DENY[] SUBAGENT_APPROVALS_DENY[bash] SUBAGENT_APPROVALS_ESCALATE[]"},
		{"--ask=ls", "SUBAGENT_APPROVALS_UNSPECIFIED[ls] SUBAGENT_APPROVALS_UNSPECIFIED[bash] SUBAGENT_APPROVALS_ESCALATE[]"},
	} {
		o := &opener{}
		_, complaints, code := o.run(t, "night", lines, c.flag)
		if may := strings.Join(o.may, " "); code != exitOK || may != c.want {
			t.Errorf("%s: exit code %d, got %s, want %s: %s", c.flag, code, may, c.want, complaints)
		}
	}
}

// TestABatchEndsWithoutADatabase that was there for none of its requests.
func TestABatchEndsWithoutADatabase(t *testing.T) {
	t.Parallel()
	o := &opener{faults: []func(pb.SessionService_CreateSessionsServer) error{noDatabase}}
	_, complaints, code := o.run(t, "night", "one\n")
	if code != exitUnavailable || !strings.Contains(complaints, "no database") || len(o.asked) > 0 {
		t.Errorf("exit code %d, %s", code, complaints)
	}
}

// noDatabase refuses a request as long as it is so.
func noDatabase(stream pb.SessionService_CreateSessionsServer) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	err = stream.Send(&pb.CreateSessionsResponse{Number: req.GetNumber(), Outcome: &pb.CreateSessionsResponse_Refused{
		Refused: &pb.Refusal{Code: int32(codes.Unavailable), Message: "no database"},
	}})
	<-stream.Context().Done()
	return err
}

// TestABatchIsRefusedWhole for a line that is nothing, before anything is asked for.
func TestABatchIsRefusedWhole(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"agent":`:            "line 2: it is not a CreateSessionRequest: unexpected EOF",
		`{"colour": "red"}`:    `line 2: it is not a CreateSessionRequest: (column 2): unknown field "colour"`,
		`{"agent": "explore"}`: "line 2: it has no message",
		"\xff":                 "line 2: it is not UTF-8",
	} {
		o := &opener{}
		_, complaints, code := o.run(t, "", "one\n"+line+"\n")
		if code != exitUsage || !strings.Contains(complaints, want) || len(o.asked) > 0 {
			t.Errorf("%q: exit code %d, %s", line, code, complaints)
		}
	}
}

// TestABatchSaysHowToGoOn and how far it came, where it did not come to its end.
func TestABatchSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "[0-9a-f-]{36}", "night": "night", "last night": "'last night'"} {
		o := &opener{}
		o.faults = []func(pb.SessionService_CreateSessionsServer) error{func(stream pb.SessionService_CreateSessionsServer) error {
			if err := o.answer(stream, true); err != nil {
				return err
			}
			return status.Error(codes.PermissionDenied, "the token is gone")
		}}
		out, complaints, code := o.run(t, name, "one\ntwo\n")
		left := regexp.MustCompile("(?m)^coppice: 1 line left; run the same command with --name " + want + " to continue with them$")
		if code != exitRefused || !left.MatchString(complaints) || !regexp.MustCompile(`(?m)^1 session in .* 1 completed$`).MatchString(out) {
			t.Errorf("%q: exit code %d, %s%s", name, code, out, complaints)
		}
	}
}

// TestABatchBeginsAfterTheMark that some editors put before the first line.
func TestABatchBeginsAfterTheMark(t *testing.T) {
	t.Parallel()
	for lines, want := range map[string]string{
		"\ufeff{\"message\":{\"text\":\"hi\"},\"idempotency_key\":\"own\"}\r\n": "own",
		"\ufeff\r\n": "", "\ufeffhi": "night/1",
	} {
		o := &opener{}
		_, complaints, code := o.run(t, "night", lines)
		if keys := strings.Join(o.asked[1], " "); code != exitOK || keys != want {
			t.Errorf("%q: exit code %d, keys %q: %s", lines, code, keys, complaints)
		}
	}
}

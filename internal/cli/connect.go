package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// defaultAddress is where coppice dev serves and clients connect by default.
const defaultAddress = "127.0.0.1:7070"

// remote is the flags of commands that talk to an orchestrator.
type remote struct {
	Orchestrator string `default:"127.0.0.1:7070" placeholder:"HOST:PORT" help:"Address of the orchestrator."`
	auth.ClientFlags
}

// client talks to an orchestrator.
type client struct {
	sessions pb.SessionServiceClient
	tasks    pb.TaskServiceClient
	agents   pb.AgentServiceClient
	admin    pb.AdminServiceClient

	approvals pb.ApprovalServiceClient

	mayNotList atomic.Bool // listing workers was refused
}

func newClient(conn grpc.ClientConnInterface) *client {
	conn = utf8Only{conn}
	return &client{
		sessions: pb.NewSessionServiceClient(conn),
		tasks:    pb.NewTaskServiceClient(conn),
		agents:   pb.NewAgentServiceClient(conn),
		admin:    pb.NewAdminServiceClient(conn),

		approvals: pb.NewApprovalServiceClient(conn),
	}
}

// with connects and calls do.
func (r remote) with(do func(*client) error) error {
	if !isTarget(r.Orchestrator) {
		return usagef("--orchestrator or COPPICE_ORCHESTRATOR is %q; expected HOST:PORT", r.Orchestrator)
	}
	options, err := r.Options(r.Orchestrator, slog.New(slog.DiscardHandler))
	if err != nil {
		return usagef("%w", err)
	}
	conn, err := assembly.Connect(r.Orchestrator, options...)
	if err != nil {
		return usagef("%w", err)
	}
	return errors.Join(r.explain(do(newClient(conn))), conn.Close())
}

// isTarget reports whether all addresses of a target have a port. A target with a scheme is left
// to gRPC.
func isTarget(target string) bool {
	if strings.Contains(target, ":/") {
		return true
	}
	for _, address := range strings.Split(target, ",") {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return false
		}
	}
	return true
}

// explain adds a hint to the error of a call that no orchestrator has answered. A TLS mismatch
// becomes a usage error, because a retry cannot succeed.
func (r remote) explain(err error) error {
	s := status.Convert(err)
	switch {
	case s.Code() == codes.Unauthenticated && r.Token+r.TokenFile == "":
		return fmt.Errorf("%w: give one in COPPICE_TOKEN or with --token-file", err)
	case s.Code() == codes.Unauthenticated:
		return fmt.Errorf("%w: the orchestrator does not know the token, or it has expired", err)
	case s.Code() != codes.Unavailable || len(s.Details()) > 0: // an error of an orchestrator has details
		return err
	}
	if err := r.DiagnoseTLS(context.Background(), r.Orchestrator); err != nil { // this opens a connection
		return usagef("%w", err)
	}
	return fmt.Errorf("%w: is an orchestrator running at %s? coppice dev starts one", err, r.Orchestrator)
}

// decisionHelp says how to decide on approvals of the orchestrator.
func (r remote) decisionHelp(a *app) decisionHelp { return remoteDecisionHelp(r.flagsFor(a)) }

// flagsFor returns the flags with which another command reaches the same orchestrator. A token is
// not included, because it must not appear on the screen.
func (r remote) flagsFor(a *app) string {
	at := ""
	if r.Orchestrator != defaultAddress || a.hasFlag("orchestrator") {
		at = " --orchestrator " + shellWord(r.Orchestrator)
	}
	return at + a.typedFlags("insecure", "tls", "tls-ca", "tls-cert", "tls-key", "token-file")
}

// last names the newest session.
const last = "last"

// session finds a session by its id, by the end of its id, or by "last".
func (c *client) session(ctx context.Context, name string) (string, error) {
	if isID(name) {
		return name, nil
	}
	if err := checkSuffix("session", name); err != nil {
		return "", err
	}
	req := &pb.ListSessionsRequest{PageSize: 1000}
	if name == last {
		req.PageSize = 1
	}
	var found []string
	for {
		page, err := c.sessions.ListSessions(ctx, req)
		if err != nil {
			return "", during("looking for the session", err)
		}
		for _, s := range page.GetSessions() {
			if name == last {
				return s.GetId(), nil
			}
			if strings.HasSuffix(s.GetId(), strings.ToLower(name)) {
				found = append(found, s.GetId())
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return single(found, "session", name)
		}
	}
}

// task finds a task of a session by its id or the end of its id.
func (c *client) task(ctx context.Context, session, name string) (string, error) {
	if isID(name) {
		return name, nil
	}
	if err := checkSuffix("task", name); err != nil {
		return "", err
	}
	var found []string
	req := &pb.ListTasksRequest{SessionId: session, PageSize: 1000}
	for {
		page, err := c.tasks.ListTasks(ctx, req)
		if err != nil {
			return "", during("looking for the task", err)
		}
		for _, t := range page.GetTasks() {
			if strings.HasSuffix(t.GetId(), strings.ToLower(name)) {
				found = append(found, t.GetId())
			}
		}
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return single(found, "task", name)
		}
	}
}

// sessionAndTask finds a session and a task of it. Without a task, the task id is empty, which
// means the root or the current branch.
func (c *client) sessionAndTask(ctx context.Context, session string, task *string) (sessionID, taskID string, err error) {
	if sessionID, err = c.session(ctx, session); err != nil || task == nil {
		return sessionID, "", err
	}
	taskID, err = c.task(ctx, sessionID, *task)
	return sessionID, taskID, err
}

// taskFlag is the --task flag of commands that also take the task as an argument.
type taskFlag struct {
	TaskFlag *string `name:"task" env:"" placeholder:"ID" help:"The task; same as the argument, for consistency with other commands."`
}

// sessionAndTask finds a session and a task of it, which the argument or the flag names.
func (also taskFlag) sessionAndTask(ctx context.Context, c *client, session string, arg *string) (sessionID, taskID string, err error) {
	sessionID, taskID, err = c.sessionAndTask(ctx, session, arg)
	if err != nil || also.TaskFlag == nil {
		return sessionID, taskID, err
	}
	flagged, err := c.task(ctx, sessionID, *also.TaskFlag)
	if err == nil && arg != nil && flagged != taskID {
		err = usagef("the argument names task %s, and --task names %s", taskID, flagged)
	}
	return sessionID, flagged, err
}

// minSuffix is the minimum length of the end of an id. An empty text would match every id, and so
// find the only object if a script uses a variable that is not set. One or two characters match by
// accident.
const minSuffix = 4

// checkSuffix refuses a name that is too short for the end of an id.
func checkSuffix(what, name string) error {
	switch {
	case name == "":
		return usagef("the id of the %s is empty", what)
	case len(name) < minSuffix:
		return usagef("%q is too short for the end of an id: give at least %d characters", name, minSuffix)
	}
	return nil
}

func single(found []string, what, name string) (string, error) {
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return "", usagef("%d %ss have ids that end in %q", len(found), what, name)
	case name == last && what == "session":
		return "", errors.New("there is no session yet")
	}
	return "", fmt.Errorf("no %s has an id that ends in %q", what, name)
}

// isID reports whether a name has the form of a whole id.
func isID(name string) bool { return len(name) == 36 && strings.Count(name, "-") == 4 }

// callError is a failed call with its purpose.
type callError struct {
	doing string
	err   error
}

// during adds the purpose of a call to its error, unless the error has one.
func during(doing string, err error) error {
	var named *callError
	if err == nil || errors.As(err, &named) {
		return err
	}
	return &callError{doing, err}
}

func (e *callError) Unwrap() error { return e.err }

func (e *callError) Error() string {
	if st, ok := status.FromError(e.err); ok {
		return fmt.Sprintf("%s: %s (%s)", e.doing, st.Message(), code.Code(st.Code()))
	}
	return e.doing + ": " + e.err.Error()
}

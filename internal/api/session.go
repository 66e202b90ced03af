package api

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/agentdef"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// Page sizes of ListSessions.
const (
	sessionPage    = 50
	sessionPageMax = 1000
)

// Bounds of a session's metadata.
const (
	maxMetadata      = 32
	maxMetadataBytes = 1024
)

type sessionServer struct {
	pb.UnimplementedSessionServiceServer
	svc       *orchestrator.Service
	intercept grpc.UnaryServerInterceptor // wraps each request of a CreateSessions stream
}

func (s *sessionServer) CreateSession(ctx context.Context, req *pb.CreateSessionRequest) (*pb.CreateSessionResponse, error) {
	if req.GetMessage() != nil && tree.Blank(req.GetMessage().GetText()) {
		return nil, tree.ErrEmpty.With("message")
	}
	if err := checkMetadata(req.GetMetadata()); err != nil {
		return nil, err
	}
	key, err := parseIdempotency(req.GetIdempotencyKey(), req)
	if err != nil {
		return nil, err
	}
	wait, err := parseWait("wait", req.GetWait())
	if err != nil {
		return nil, err
	}
	if wait != noWait && req.GetMessage() == nil {
		return nil, tree.ErrBadInput.With("wait requires a message")
	}
	permissions, err := wire.LayerFrom(req.GetPermissions())
	if err != nil {
		return nil, err
	}
	approvals, err := wire.ApprovalsFrom(req.GetPermissions())
	if err != nil {
		return nil, err
	}
	if err := checkCallbacks(req); err != nil {
		return nil, err
	}
	session, root, err := s.svc.CreateSession(ctx, tenant(ctx), orchestrator.SessionSpec{
		Agent: req.GetAgent(), Text: req.GetMessage().GetText(), Title: req.GetTitle(),
		Model: req.GetModel(), Metadata: req.GetMetadata(), NoBackground: req.GetNoBackground(),
		Permissions: permissions, Approvals: approvals, Source: req.GetSource(), Workspace: req.GetWorkspace(), Budget: wire.BudgetFrom(req.GetBudget()),
		OnComplete: req.GetOnComplete(), OnApproval: req.GetOnApproval(),
	}, key)
	if err != nil {
		return nil, err
	}
	if wait == noWait {
		return &pb.CreateSessionResponse{Session: wire.Session(session, root)}, nil
	}
	now, ended, err := awaitStarted(ctx, s.svc, root, firstRun(root.ID), wait)
	if err != nil {
		return nil, err
	}
	resp := &pb.CreateSessionResponse{Root: taskWithOutput(now), Ended: ended}
	resp.Session, err = s.sessionAfterWait(ctx, now, session)
	return resp, err
}

// sessionAfterWait returns a session as it is after a wait. If it can't be read now, it returns it
// as it was opened: what was started continues, and the client has to know of it.
func (s *sessionServer) sessionAfterWait(ctx context.Context, now orchestrator.WaitResult, opened *tree.Session) (*pb.Session, error) {
	if now.Session != nil {
		return wire.Session(now.Session, now.Task), nil
	}
	session, err := s.readSession(ctx, opened.ID)
	if errors.Is(err, tree.ErrUnavailable) {
		return wire.Session(opened, now.Task), nil
	}
	return session, err
}

// checkCallbacks refuses URLs that can't be called.
func checkCallbacks(req *pb.CreateSessionRequest) error {
	if err := checkCallback("on_complete", req.GetOnComplete()); err != nil {
		return err
	}
	return checkCallback("on_approval", req.GetOnApproval())
}

func checkCallback(name, url string) error {
	if url == "" {
		return nil
	}
	if err := agentdef.CheckCallback(url); err != nil {
		return tree.ErrBadInput.With("%s: %v", name, err)
	}
	return nil
}

func checkMetadata(metadata map[string]string) error {
	if len(metadata) > maxMetadata {
		return tree.ErrTooLarge.With("metadata has %d pairs, the limit is %d", len(metadata), maxMetadata)
	}
	for k, v := range metadata {
		if strings.ContainsRune(k+v, 0) {
			return tree.ErrBadInput.With("a pair of metadata contains a NUL byte")
		}
		if len(k)+len(v) > maxMetadataBytes {
			return tree.ErrTooLarge.With("a pair of metadata has %d bytes, the limit is %d", len(k)+len(v), maxMetadataBytes)
		}
	}
	return nil
}

func (s *sessionServer) readSession(ctx context.Context, id tree.SessionID) (*pb.Session, error) {
	session, root, err := s.svc.Session(ctx, tenant(ctx), id)
	if err != nil {
		return nil, err
	}
	return wire.Session(session, root), nil
}

func (s *sessionServer) GetSession(ctx context.Context, req *pb.GetSessionRequest) (*pb.GetSessionResponse, error) {
	id, err := parseSessionID(req.GetSessionId())
	if err != nil {
		return nil, err
	}
	session, err := s.readSession(ctx, id)
	if err != nil {
		return nil, err
	}
	return &pb.GetSessionResponse{Session: session}, nil
}

func (s *sessionServer) ListSessions(ctx context.Context, req *pb.ListSessionsRequest) (*pb.ListSessionsResponse, error) {
	size, err := pageSize(req.GetPageSize(), sessionPage, sessionPageMax)
	if err != nil {
		return nil, err
	}
	if err := checkMetadata(req.GetFilter()); err != nil {
		return nil, err
	}
	page, err := s.svc.Sessions(ctx, tenant(ctx), req.GetPageToken(), size, req.GetFilter())
	if err != nil {
		return nil, err
	}
	resp := &pb.ListSessionsResponse{}
	resp.Sessions, resp.NextPageToken, err = pageRows(page, func(session *tree.Session) (*pb.Session, error) {
		shown, err := s.listed(ctx, session, req.GetIncludeChildren())
		if errors.Is(err, tree.ErrNoSession) {
			return nil, nil // it was deleted meanwhile
		}
		return shown, err
	})
	return resp, err
}

func (s *sessionServer) SendMessage(ctx context.Context, req *pb.SendMessageRequest) (*pb.SendMessageResponse, error) {
	session, task, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	key, err := parseIdempotency(req.GetIdempotencyKey(), req)
	if err != nil {
		return nil, err
	}
	interrupt, err := parseDelivery(req.GetDelivery())
	if err != nil {
		return nil, err
	}
	wait, err := parseWait("wait", req.GetWait())
	if err != nil {
		return nil, err
	}
	t, sent, err := s.svc.SendMessage(ctx, tenant(ctx), session, orchestrator.UserMessage{
		Task: task, Text: req.GetMessage().GetText(), Interrupt: interrupt, Source: req.GetSource(),
	}, key)
	if err != nil {
		return nil, err
	}
	now, ended, err := awaitStarted(ctx, s.svc, t, sent, wait)
	if err != nil {
		return nil, err
	}
	return &pb.SendMessageResponse{Task: taskWithOutput(now), Ended: ended, Queued: sent.Queued, Backgrounded: int32(sent.Backgrounded)}, nil
}

func (s *sessionServer) WatchSession(req *pb.WatchSessionRequest, stream pb.SessionService_WatchSessionServer) error {
	id, err := parseSessionID(req.GetSessionId())
	if err != nil {
		return err
	}
	idle, err := s.svc.WatchSession(stream.Context(), tenant(stream.Context()), id, orchestrator.Watch{
		After: req.GetAfterSeq(), Deltas: req.GetIncludeDeltas(), UntilIdle: req.GetUntilIdle(), SeveralEvents: req.GetSeveralEvents(),
		OnEmptyStart: func() error { return stream.SendHeader(nil) }, // otherwise headers are sent with the first step
	}, func(step *wire.Step) error { return stream.SendMsg(step) })
	if err != nil {
		return err
	}
	return stream.Send(&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Idle{Idle: idle}})
}

func (s *sessionServer) GetTree(ctx context.Context, req *pb.GetTreeRequest) (*pb.GetTreeResponse, error) {
	id, task, err := parseTaskRef(req.GetSessionId(), req.GetTaskId(), true)
	if err != nil {
		return nil, err
	}
	if req.GetMaxDepth() < 0 {
		return nil, tree.ErrBadInput.With("max_depth is negative")
	}
	session, root, tasks, err := s.svc.Tree(ctx, tenant(ctx), id)
	if err != nil {
		return nil, err
	}
	node := buildTree(tasks, session.OrRoot(task), int(req.GetMaxDepth()))
	if node == nil {
		return nil, tree.ErrNoTask
	}
	return &pb.GetTreeResponse{Session: wire.Session(session, root), Root: node}, nil
}

// buildTree builds the tree below a task from tasks that are in the order of siblings. It returns
// nil if the task is not among them.
func buildTree(tasks []tree.Task, top tree.TaskID, levels int) *pb.TreeNode {
	var root *tree.Task
	children, branches := map[tree.TaskID][]*tree.Task{}, map[tree.TaskID][]*tree.Task{}
	for i := range tasks {
		t := &tasks[i]
		if t.ID == top {
			root = t
		}
		if t.Branch == tree.BranchHuman {
			branches[t.Base.Task] = append(branches[t.Base.Task], t)
			continue
		}
		children[t.Parent] = append(children[t.Parent], t)
	}
	if root == nil {
		return nil
	}
	var node func(t, top *tree.Task) *pb.TreeNode
	node = func(t, top *tree.Task) *pb.TreeNode {
		n := &pb.TreeNode{Task: wire.Task(t)}
		for _, b := range branches[t.ID] {
			n.Branches = append(n.Branches, node(b, b))
		}
		if levels > 0 && t.Depth-top.Depth >= levels {
			return n
		}
		for _, c := range children[t.ID] {
			n.Children = append(n.Children, node(c, top))
		}
		return n
	}
	return node(root, root)
}

// sessionChildren bounds the tasks other than the root that ListSessions returns of each session.
const sessionChildren = 100

// listed reads the root of a session and, with children, its other tasks, oldest first.
func (s *sessionServer) listed(ctx context.Context, session *tree.Session, children bool) (*pb.Session, error) {
	var root *tree.Task
	var page orchestrator.Page[tree.Task]
	var err error
	if children {
		root, page, err = s.svc.Tasks(ctx, tenant(ctx), session.ID, tree.TaskID{}, "", sessionChildren+1)
	} else {
		root, err = s.svc.Task(ctx, tenant(ctx), session.ID, session.Root)
	}
	if err != nil {
		return nil, err
	}
	shown := wire.Session(session, root)
	for i := range page.Rows {
		if t := &page.Rows[i]; t.ID != session.Root && len(shown.Children) < sessionChildren {
			shown.Children = append(shown.Children, wire.Task(t))
		}
	}
	return shown, nil
}

// parseDelivery reports whether a message interrupts.
func parseDelivery(d pb.Delivery) (bool, error) {
	switch d {
	case pb.Delivery_DELIVERY_UNSPECIFIED, pb.Delivery_DELIVERY_NEXT_BOUNDARY:
		return false, nil
	case pb.Delivery_DELIVERY_INTERRUPT:
		return true, nil
	}
	return false, tree.ErrBadInput.With("delivery: %d is not a known value", d)
}

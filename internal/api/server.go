// Package api serves the contract over gRPC. It parses requests, calls the orchestrator, and
// translates the results. It decides nothing.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/firstbyte"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tree"
	"github.com/coppice-run/coppice/internal/wire"
)

// maxRequestBytes bounds one request, which has at most a few parts of the maximum size of a part.
const maxRequestBytes = 16 << 20

// Keepalive: a client may ping each minPingInterval. The server pings a connection that is silent
// for pingAfter, and closes it if there is no answer within pingTimeout.
const (
	minPingInterval = 5 * time.Second
	pingAfter       = 10 * time.Second
	pingTimeout     = 5 * time.Second
)

// Flow-control windows of HTTP/2, for servers and clients: how much a stream, and all streams of a
// connection, may receive before the receiver takes it in. With fixed windows gRPC does not measure
// the connection, which it would do with a ping for nearly every message that arrives.
const (
	StreamWindow = 1 << 20
	ConnWindow   = 16 << 20
)

// HandshakeTimeout is how long a client may take, from its first byte on, until the connection is
// ready for calls. A server that stops waits for that.
const HandshakeTimeout = 5 * time.Second

// maxConnectionAge is how long a connection takes new calls, give or take a tenth. Then the client
// opens another one, and first resolves the addresses of replicas again, which clients do at no
// other time. Streams continue over the old connection for as long as they last.
const maxConnectionAge = 30 * time.Second

// Server is the gRPC server of one replica.
type Server struct {
	*grpc.Server
	Health *health.Server // not serving as soon as Shutdown begins
	svc    *orchestrator.Service
	inside *InProcess                                  // nil: none
	around func(*guard) []grpc.StreamServerInterceptor // wrap each stream, the outermost first
	log    *slog.Logger
}

// New returns a server with all services, health and reflection. It removes the secrets from all
// requests that it takes and from all errors that it returns.
func New(svc *orchestrator.Service, secrets *redact.Redactor, security auth.Server, log *slog.Logger) *Server {
	onPanic := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		log.ErrorContext(ctx, "a handler panicked", "panic", p, "stack", string(debug.Stack()))
		return errPanicked
	})
	recoverUnary, statusUnary := recovery.UnaryServerInterceptor(onPanic), unaryStatus(log, secrets)
	around := func(access *guard) []grpc.StreamServerInterceptor {
		return []grpc.StreamServerInterceptor{streamStatus(log, secrets), recovery.StreamServerInterceptor(onPanic), access.stream, streamClean(secrets)}
	}
	access := &guard{tokens: security.Tokens, log: log}
	s := grpc.NewServer(append(connectionOptions(),
		grpc.Creds(security.Transport()),
		grpc.ForceServerCodecV2(wire.NewCodec()),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(wire.MaxResponseBytes),
		grpc.ChainUnaryInterceptor(unaryTrace, statusUnary, recoverUnary, access.unary, unaryClean(secrets)),
		grpc.ChainStreamInterceptor(around(access)...),
	)...)
	registrar := guardedRegistrar{s, access}
	pb.RegisterSessionServiceServer(registrar, &sessionServer{svc: svc, intercept: chain(statusUnary, recoverUnary)})
	pb.RegisterTaskServiceServer(registrar, &taskServer{svc: svc})
	pb.RegisterApprovalServiceServer(registrar, &approvalServer{svc: svc})
	pb.RegisterAgentServiceServer(registrar, &agentServer{svc: svc})
	pb.RegisterWorkerServiceServer(registrar, &workerServer{svc: svc})
	pb.RegisterAdminServiceServer(registrar, &adminServer{svc: svc})
	h := health.NewServer()
	healthpb.RegisterHealthServer(s, h)
	reflection.Register(s)
	return &Server{Server: s, Health: h, svc: svc, around: around, log: log}
}

// connectionOptions limits windows, handshakes, pings and the age of connections.
func connectionOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(HandshakeTimeout),
		grpc.StaticStreamWindowSize(StreamWindow), grpc.StaticConnWindowSize(ConnWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minPingInterval, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout, MaxConnectionAge: maxConnectionAge,
		}),
	}
}

// Serve takes calls from a listener until Shutdown. It returns at once if Shutdown was called
// before.
func (s *Server) Serve(l net.Listener) error {
	err := s.Server.Serve(firstbyte.Listener(l))
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// ServeInProcess takes streams of a worker in this process until Shutdown. Call it at most once.
func (s *Server) ServeInProcess(p *InProcess) {
	s.inside = p
	p.serve(&workerServer{svc: s.svc, local: true}, s.around(&guard{log: s.log})) // without tokens
}

// gracefulStopTimeout is how long running calls may take to end on their own.
const gracefulStopTimeout = 3 * time.Second

// Shutdown makes health report not serving, stops taking calls, lets short calls end, and then ends
// the streams. The caller first ends what the streams wait for.
func (s *Server) Shutdown() {
	s.Health.Shutdown()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.GracefulStop()
	}()
	if s.inside != nil {
		s.inside.stop()
	}
	select {
	case <-done:
	case <-time.After(gracefulStopTimeout):
		s.Stop()
		<-done
	}
}

// chain returns an interceptor that calls inner inside outer.
func chain(outer, inner grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, handler)
		})
	}
}

// unaryStatus converts errors to statuses, and logs errors that have no code.
func unaryStatus(log *slog.Logger, secrets *redact.Redactor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		return resp, wire.CleanStatus(publicStatus(ctx, log, info.FullMethod, nameMissing(err, req)), secrets)
	}
}

// nameMissing adds the id that a request names to the error that it does not exist.
func nameMissing(err error, req any) error {
	var named *tree.Error
	if !errors.As(err, &named) {
		return err
	}
	id := ""
	switch named {
	case tree.ErrNoSession:
		if r, ok := req.(interface{ GetSessionId() string }); ok {
			id = r.GetSessionId()
		}
	case tree.ErrNoTask:
		if r, ok := req.(interface{ GetTaskId() string }); ok {
			id = r.GetTaskId()
		}
	}
	if id == "" {
		return err
	}
	return named.With("%s", id)
}

func streamStatus(log *slog.Logger, secrets *redact.Redactor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return wire.CleanStatus(publicStatus(stream.Context(), log, info.FullMethod, handler(srv, stream)), secrets)
	}
}

func publicStatus(ctx context.Context, log *slog.Logger, method string, err error) error {
	internal, st := wire.Status(err)
	if internal {
		log.ErrorContext(ctx, "a call failed", "method", method, "error", err)
	}
	return st
}

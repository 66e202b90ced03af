// Package api serves the contract over gRPC: it reads requests, asks the
// orchestrator, and translates what comes back. Nothing is decided here.
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
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/wire"
)

// Message sizes. A request carries at most a few parts of the size bound;
// answers may hold a large tree.
const (
	maxRequestBytes  = 16 << 20
	maxResponseBytes = 64 << 20
)

// Keepalive: a worker or watcher may ping this often; a link that is silent for
// so long is pinged, and given up when nothing comes back.
const (
	minPingInterval = 5 * time.Second
	pingAfter       = 10 * time.Second
	pingTimeout     = 5 * time.Second
)

// maxConnectionAge is how long a connection takes calls, give or take a tenth. Whoever has made it
// makes another one then, and looks up before where replicas are, which clients do at no
// other time. Streams go on over the old one for as long as they last.
const maxConnectionAge = 30 * time.Second

// Server is the gRPC server of one replica.
type Server struct {
	*grpc.Server
	Health *health.Server // is not serving as soon as Shutdown begins
}

// New gives a server with all services, health and reflection. No request that it
// takes, and no error that it gives, holds any of the secrets.
func New(svc *orchestrator.Service, secrets *redact.Redactor, security auth.Server, log *slog.Logger) *Server {
	caught := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		log.ErrorContext(ctx, "a handler panicked", "panic", p, "stack", string(debug.Stack()))
		return errPanicked
	})
	caughtUnary, named := recovery.UnaryServerInterceptor(caught), unaryStatus(log, secrets)
	in := &guard{tokens: security.Tokens, log: log}
	s := grpc.NewServer(append(connectionOptions(),
		grpc.Creds(security.Transport()),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxSendMsgSize(maxResponseBytes),
		grpc.ChainUnaryInterceptor(unaryTrace, named, caughtUnary, in.unary, unaryClean(secrets)),
		grpc.ChainStreamInterceptor(streamStatus(log, secrets), recovery.StreamServerInterceptor(caught), in.stream, streamClean(secrets)),
	)...)
	guarded := guardedRegistrar{s, in}
	pb.RegisterSessionServiceServer(guarded, &sessionServer{svc: svc, intercept: chain(named, caughtUnary)})
	pb.RegisterTaskServiceServer(guarded, &taskServer{svc: svc})
	pb.RegisterApprovalServiceServer(guarded, &approvalServer{svc: svc})
	pb.RegisterAgentServiceServer(guarded, &agentServer{svc: svc})
	pb.RegisterWorkerServiceServer(guarded, &workerServer{svc: svc})
	pb.RegisterAdminServiceServer(guarded, &adminServer{svc: svc})
	h := health.NewServer()
	healthpb.RegisterHealthServer(s, h)
	reflection.Register(s)
	return &Server{Server: s, Health: h}
}

// connectionOptions says how long connections last.
func connectionOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: minPingInterval, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout, MaxConnectionAge: maxConnectionAge,
		}),
	}
}

// Serve takes calls from a listener until Shutdown, which may have been before.
func (s *Server) Serve(l net.Listener) error {
	err := s.Server.Serve(l)
	if errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// gracefulStopTimeout is how long calls under way may take to end by themselves.
const gracefulStopTimeout = 3 * time.Second

// Shutdown stops taking calls, says so through health, lets short calls end, and
// then ends the streams. The caller ends what the streams wait for first.
func (s *Server) Shutdown() {
	s.Health.Shutdown()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.GracefulStop()
	}()
	select {
	case <-done:
	case <-time.After(gracefulStopTimeout):
		s.Stop()
		<-done
	}
}

// chain is the inner interceptor inside the outer one.
func chain(outer, inner grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return outer(ctx, req, info, func(ctx context.Context, req any) (any, error) {
			return inner(ctx, req, info, handler)
		})
	}
}

// unaryStatus turns errors into statuses and logs those that have no code.
func unaryStatus(log *slog.Logger, secrets *redact.Redactor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		resp, err := handler(ctx, req)
		return resp, wire.CleanStatus(publicStatus(ctx, log, info.FullMethod, err), secrets)
	}
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

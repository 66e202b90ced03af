package api

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionalpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/coppice-run/coppice/internal/auth"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// users says who may use which service, beside admins, who may use all of them. A
// service without a line is nobody's.
var users = map[string][]auth.Role{
	pb.SessionService_ServiceDesc.ServiceName:  {auth.RoleClient},
	pb.TaskService_ServiceDesc.ServiceName:     {auth.RoleClient},
	pb.AgentService_ServiceDesc.ServiceName:    {auth.RoleClient},
	pb.ApprovalService_ServiceDesc.ServiceName: {auth.RoleClient},
	pb.WorkerService_ServiceDesc.ServiceName:   {auth.RoleWorker},
	pb.AdminService_ServiceDesc.ServiceName:    {},

	reflectionpb.ServerReflection_ServiceDesc.ServiceName:    {auth.RoleClient, auth.RoleWorker},
	reflectionalpha.ServerReflection_ServiceDesc.ServiceName: {auth.RoleClient, auth.RoleWorker},
}

// open is what anybody may call: it says no more than that the server is there.
var open = healthpb.Health_ServiceDesc.ServiceName

// anybody is who calls where calls carry no tokens.
var anybody = auth.Identity{Tenant: auth.DefaultTenant, Role: auth.RoleAdmin}

// tenant is whose sessions a call sees. It comes from the token of the call, and
// from nothing that the call says.
func tenant(ctx context.Context) string { return auth.FromContext(ctx).Tenant }

// guard lets calls in by their tokens.
type guard struct {
	tokens *auth.Tokens // nil: all calls are anybody's
	log    *slog.Logger

	toldAt  atomic.Int64 // when a refusal was last logged, in seconds
	refused atomic.Int64 // how many were not logged since
}

// admit says who calls, or refuses. A refusal says nothing about what was called
// or what there is: neither whether a token was ever known, nor what it is for.
func (g *guard) admit(ctx context.Context, method string) (auth.Identity, error) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if service == open {
		return auth.Identity{}, nil
	}
	if g.tokens == nil {
		return anybody, nil
	}
	who, ok := g.tokens.Identify(auth.TokenFromContext(ctx))
	if !ok {
		g.note(ctx, method, who, wire.ErrUnauthenticated)
		return auth.Identity{}, wire.ErrUnauthenticated
	}
	roles, known := users[service]
	if !known || who.Role != auth.RoleAdmin && !slices.Contains(roles, who.Role) {
		g.note(ctx, method, who, wire.ErrForbidden)
		return auth.Identity{}, wire.ErrForbidden
	}
	return who, nil
}

// note logs a refusal, one a second at most: anybody can cause them.
func (g *guard) note(ctx context.Context, method string, who auth.Identity, err error) {
	now, last := time.Now().Unix(), g.toldAt.Load()
	if now == last || !g.toldAt.CompareAndSwap(last, now) {
		g.refused.Add(1)
		return
	}
	g.log.WarnContext(ctx, "a call was refused", "method", method, "caller", who.Name, "tenant", who.Tenant,
		"error", err, "more_before", g.refused.Swap(0))
}

// gate registers services whose unary calls have to be let in before they are read. gRPC
// hands them to interceptors only with their message, so whoever has no token could have
// the server hold as many large ones as it likes. A stream meets its interceptors first.
type gate struct {
	grpc.ServiceRegistrar
	guard *guard
}

// RegisterService puts the guard before each unary method.
func (g gate) RegisterService(service *grpc.ServiceDesc, impl any) {
	guarded := *service
	guarded.Methods = slices.Clone(service.Methods)
	for i, m := range service.Methods {
		path := "/" + service.ServiceName + "/" + m.MethodName
		guarded.Methods[i].Handler = func(srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			if _, err := g.guard.admit(ctx, path); err != nil {
				return nil, err
			}
			return m.Handler(srv, ctx, read, interceptor)
		}
	}
	g.ServiceRegistrar.RegisterService(&guarded, impl)
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	who, err := g.admit(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	return handler(auth.NewContext(ctx, who), req)
}

func (g *guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	who, err := g.admit(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	return handler(srv, &guarded{stream, g, info.FullMethod, auth.NewContext(stream.Context(), who)})
}

// guarded is a stream that ends with the first message after its token does: what
// is open for days must not outlive a token that was taken away.
type guarded struct {
	grpc.ServerStream
	guard  *guard
	method string
	ctx    context.Context //nolint:containedctx // a stream carries its context
}

func (s *guarded) Context() context.Context { return s.ctx }

func (s *guarded) SendMsg(m any) error {
	if err := s.still(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

func (s *guarded) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.still()
}

// still checks that the token is good for the same as when the stream began.
func (s *guarded) still() error {
	who, err := s.guard.admit(s.ServerStream.Context(), s.method)
	if err == nil && who != auth.FromContext(s.ctx) {
		err = wire.ErrUnauthenticated
	}
	return err
}

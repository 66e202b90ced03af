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

// allowedRoles says which roles may use a service. Admins may use all services that are listed;
// nobody may use a service that is not listed.
var allowedRoles = map[string][]auth.Role{
	pb.SessionService_ServiceDesc.ServiceName:  {auth.RoleClient},
	pb.TaskService_ServiceDesc.ServiceName:     {auth.RoleClient},
	pb.AgentService_ServiceDesc.ServiceName:    {auth.RoleClient},
	pb.ApprovalService_ServiceDesc.ServiceName: {auth.RoleClient},
	pb.WorkerService_ServiceDesc.ServiceName:   {auth.RoleWorker},
	pb.AdminService_ServiceDesc.ServiceName:    {},

	reflectionpb.ServerReflection_ServiceDesc.ServiceName:    {auth.RoleClient, auth.RoleWorker},
	reflectionalpha.ServerReflection_ServiceDesc.ServiceName: {auth.RoleClient, auth.RoleWorker},
}

// publicService needs no token. It says only that the server is there.
var publicService = healthpb.Health_ServiceDesc.ServiceName

// unauthenticatedCaller is the caller of all calls if the server has no tokens.
var unauthenticatedCaller = auth.Identity{Tenant: auth.DefaultTenant, Role: auth.RoleAdmin}

// tenant returns the tenant whose sessions a call sees. It comes only from the token of the call,
// never from the request.
func tenant(ctx context.Context) string { return auth.FromContext(ctx).Tenant }

// guard checks the tokens of calls.
type guard struct {
	tokens *auth.Tokens // nil: calls need no token
	log    *slog.Logger

	lastLogged atomic.Int64 // when a refusal was last logged, in seconds
	unlogged   atomic.Int64 // how many refusals were not logged since
}

// authorize returns the caller, or an error. The error reveals nothing about the method, nor
// whether a token was ever valid, nor what it allows.
func (g *guard) authorize(ctx context.Context, method string) (auth.Identity, error) {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if service == publicService {
		return auth.Identity{}, nil
	}
	if g.tokens == nil {
		return unauthenticatedCaller, nil
	}
	who, ok := g.tokens.Identify(auth.TokenFromContext(ctx))
	if !ok {
		g.logRefusal(ctx, method, who, wire.ErrUnauthenticated)
		return auth.Identity{}, wire.ErrUnauthenticated
	}
	roles, known := allowedRoles[service]
	if !known || who.Role != auth.RoleAdmin && !slices.Contains(roles, who.Role) {
		g.logRefusal(ctx, method, who, wire.ErrForbidden)
		return auth.Identity{}, wire.ErrForbidden
	}
	return who, nil
}

// logRefusal logs a refusal, at most one a second, because anybody can cause them.
func (g *guard) logRefusal(ctx context.Context, method string, who auth.Identity, err error) {
	now, last := time.Now().Unix(), g.lastLogged.Load()
	if now == last || !g.lastLogged.CompareAndSwap(last, now) {
		g.unlogged.Add(1)
		return
	}
	g.log.WarnContext(ctx, "a call was refused", "method", method, "caller", who.Name, "tenant", who.Tenant,
		"error", err, "more_before", g.unlogged.Swap(0))
}

// guardedRegistrar registers services whose unary calls are authorized before their request is
// read. gRPC calls interceptors only with the request, so callers without a token could make the
// server hold any number of large requests. For a stream, interceptors run before the first
// message.
type guardedRegistrar struct {
	grpc.ServiceRegistrar
	guard *guard
}

// RegisterService puts the guard in front of each unary method.
func (g guardedRegistrar) RegisterService(service *grpc.ServiceDesc, impl any) {
	guarded := *service
	guarded.Methods = slices.Clone(service.Methods)
	for i, m := range service.Methods {
		path := "/" + service.ServiceName + "/" + m.MethodName
		guarded.Methods[i].Handler = func(srv any, ctx context.Context, read func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
			if _, err := g.guard.authorize(ctx, path); err != nil {
				return nil, err
			}
			return m.Handler(srv, ctx, read, interceptor)
		}
	}
	g.ServiceRegistrar.RegisterService(&guarded, impl)
}

func (g *guard) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	who, err := g.authorize(ctx, info.FullMethod)
	if err != nil {
		return nil, err
	}
	resp, err := handler(auth.NewContext(ctx, who), req)
	// A call may wait for minutes, and its result must not outlive the token either.
	if gone := g.check(ctx, info.FullMethod, who); gone != nil {
		return nil, gone
	}
	return resp, err
}

// check checks that the token of a call still identifies the caller that began it.
func (g *guard) check(ctx context.Context, method string, began auth.Identity) error {
	who, err := g.authorize(ctx, method)
	if err == nil && who != began {
		err = wire.ErrUnauthenticated
	}
	return err
}

func (g *guard) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	who, err := g.authorize(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	return handler(srv, &guardedStream{stream, g, info.FullMethod, auth.NewContext(stream.Context(), who)})
}

// guardedStream checks the token with each message. A stream may be open for days, and must not
// outlive a token that was withdrawn.
type guardedStream struct {
	grpc.ServerStream
	guard  *guard
	method string
	ctx    context.Context //nolint:containedctx // a stream carries its context
}

func (s *guardedStream) Context() context.Context { return s.ctx }

func (s *guardedStream) SendMsg(m any) error {
	if err := s.checkToken(); err != nil {
		return err
	}
	return s.ServerStream.SendMsg(m)
}

func (s *guardedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.checkToken()
}

func (s *guardedStream) checkToken() error {
	return s.guard.check(s.ServerStream.Context(), s.method, auth.FromContext(s.ctx))
}

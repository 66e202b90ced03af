package assembly_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// keyring is a file of tokens, and the tokens.
type keyring struct {
	t       *testing.T
	path    string
	entries []auth.Entry
}

func newKeyring(t *testing.T) *keyring {
	t.Helper()
	k := &keyring{t: t, path: filepath.Join(t.TempDir(), "tokens.yaml")}
	k.write()
	return k
}

func (k *keyring) write() {
	k.t.Helper()
	data, err := yaml.Marshal(map[string][]auth.Entry{"tokens": k.entries})
	if err == nil {
		err = os.WriteFile(k.path, data, 0o600)
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

func (k *keyring) token(role auth.Role, tenant string, expires time.Time) string {
	k.t.Helper()
	token, entry, err := auth.NewToken(auth.Identity{Role: role, Tenant: tenant}, expires)
	if err != nil {
		k.t.Fatal(err)
	}
	k.entries = append(k.entries, entry)
	k.write()
	return token
}

// guard has an installation ask for tokens of the file as it is now.
func (k *keyring) guard(d *assembly.Dev) {
	k.t.Helper()
	security, err := auth.TokenFlags{Tokens: k.path}.Open(d.Logger)
	if err != nil {
		k.t.Fatal(err)
	}
	d.Listen, d.Security = "127.0.0.1:0", security
}

// as connects from outside with a token; without one if it is empty.
func (c *client) as(token string) (*client, *grpc.ClientConn) {
	c.t.Helper()
	conn, err := assembly.Connect(c.running.Addr(), func() []grpc.DialOption {
		if token == "" {
			return nil
		}
		return []grpc.DialOption{auth.WithToken(token)}
	}()...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	other := newClient(c.t, conn)
	return other, conn
}

// services asks a server for the methods of all its services.
func services(ctx context.Context, t *testing.T, conn grpc.ClientConnInterface) []protoreflect.MethodDescriptor {
	t.Helper()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var methods []protoreflect.MethodDescriptor
	for _, s := range resp.GetListServicesResponse().GetService() {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.GetName()))
		if err != nil {
			t.Fatal(err)
		}
		all := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range all.Len() {
			methods = append(methods, all.Get(i))
		}
	}
	return methods
}

func path(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name())
}

// invoke makes a call of any kind with one request, and gives its first answer.
func invoke(ctx context.Context, t *testing.T, conn grpc.ClientConnInterface, m protoreflect.MethodDescriptor, req proto.Message) (proto.Message, error) {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path(m), grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(req); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	resp := kind.New().Interface()
	return resp, stream.RecvMsg(resp)
}

// belongings is what a tenant has.
type belongings struct {
	session, task, message, approval, agent string
}

// secret is in what the tenant has, and nowhere else.
const secret = "the-secret-of-acme"

func (b belongings) definition(description string) string {
	return "---\nname: " + b.agent + "\ndescription: " + description + "\nmode: both\n---\nDo it.\n"
}

// request names what somebody has in the request of a method.
func (b belongings) request(t *testing.T, m protoreflect.MethodDescriptor) (req proto.Message, names bool) {
	t.Helper()
	kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	said := map[protoreflect.Name]string{
		"session_id": b.session, "task_id": b.task, "parent_task_id": b.task, "message_id": b.message,
		"approval_id": b.approval, "name": b.agent, "definition": b.definition("another"), "agent": "explore",
		"prompt": "p", "text": "t", "title": "t", "reason": "r", "idempotency_key": "the same key",
	}
	r := kind.New()
	fields := m.Input().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		value, known := said[f.Name()]
		switch {
		case known && f.Kind() == protoreflect.StringKind && !f.IsList():
			r.Set(f, protoreflect.ValueOfString(value))
		case f.Name() == "message" && f.Kind() == protoreflect.MessageKind:
			r.Set(f, protoreflect.ValueOfMessage((&pb.UserMessage{Text: "hello"}).ProtoReflect()))
		case f.Name() == "timeout":
			r.Set(f, protoreflect.ValueOfMessage(durationpb.New(time.Millisecond).ProtoReflect()))
		case f.Name() == "decision":
			r.Set(f, protoreflect.ValueOfEnum(protoreflect.EnumNumber(pb.Decision_DECISION_DENY)))
		case f.Name() == "opening":
			r.Set(f, protoreflect.ValueOfMessage((&pb.ImportOpening{}).ProtoReflect()))
		}
		names = names || f.Name() == "session_id" || f.Name() == "approval_id" || f.Name() == "name"
	}
	return r.Interface(), names
}

// settle opens a session that waits for an approval.
func (c *client) settle(agent string) belongings {
	c.t.Helper()
	b := belongings{agent: agent}
	resp, err := c.CreateSession(c.ctx(), &pb.CreateSessionRequest{
		Title: secret, Message: &pb.UserMessage{Text: secret}, Permissions: &pb.Permissions{Ask: []string{"ls(.)"}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	b.session = resp.GetSession().GetId()
	b.approval = c.blocked(b.session)[0].GetId()
	root, err := c.GetTree(c.ctx(), &pb.GetTreeRequest{SessionId: b.session})
	if err != nil {
		c.t.Fatal(err)
	}
	b.task = root.GetRoot().GetTask().GetId()
	stream, err := c.GetTranscript(c.ctx(), &pb.GetTranscriptRequest{SessionId: b.session})
	if err != nil {
		c.t.Fatal(err)
	}
	first, err := stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	b.message = first.GetMessages()[0].GetId()
	return b
}

// inhabited is an installation with two tenants, of which one has something.
type inhabited struct {
	*client
	worker, own, ownAdmin, other, otherAdmin, expired string
	acme                                              *client
}

func inhabit(t *testing.T) *inhabited {
	t.Helper()
	k := newKeyring(t)
	never := time.Time{}
	in := &inhabited{
		worker: k.token(auth.RoleWorker, "", never), own: k.token(auth.RoleClient, "acme", never), ownAdmin: k.token(auth.RoleAdmin, "acme", never),
		other: k.token(auth.RoleClient, "other", never), otherAdmin: k.token(auth.RoleAdmin, "other", never),
		expired: k.token(auth.RoleAdmin, "acme", time.Now().Add(-time.Second)),
	}
	in.client = setup(t, asking, func(d *assembly.Dev) {
		d.Logger = slog.New(slog.DiscardHandler)
		k.guard(d)
	})
	in.acme, _ = in.as(in.own)
	return in
}

// fill gives the tenant acme something new, and sees that it can do the call itself.
func (in *inhabited) fill(m protoreflect.MethodDescriptor) belongings {
	in.t.Helper()
	b := in.acme.settle("keeper-" + strings.ToLower(string(m.Name())))
	if _, err := in.acme.PutAgent(in.acme.ctx(), &pb.PutAgentRequest{Definition: b.definition(secret)}); err != nil {
		in.t.Fatal(err)
	}
	return b
}

// state is what can be seen of what a tenant has.
func (c *client) state(b belongings) string {
	c.t.Helper()
	session, err := c.GetSession(c.ctx(), &pb.GetSessionRequest{SessionId: b.session})
	if err != nil {
		c.t.Fatal(err)
	}
	agent, err := c.GetAgent(c.ctx(), &pb.GetAgentRequest{Name: b.agent})
	if err != nil {
		c.t.Fatal(err)
	}
	return session.String() + agent.String()
}

// TestEveryCallIsGuarded makes every call that the server has with every wrong
// credential.
func TestEveryCallIsGuarded(t *testing.T) {
	t.Parallel()
	in := inhabit(t)
	_, admin := in.as(in.ownAdmin)
	methods := services(in.ctx(), t, admin)
	refused, blind, opened := 0, 0, 0
	for _, m := range methods {
		b := in.fill(m)
		req, names := b.request(t, m)
		if m.Parent().FullName() == protoreflect.FullName(healthpb.Health_ServiceDesc.ServiceName) {
			opened++ // says no more than that the server is there
			if _, conn := in.as(""); status.Code(second(invoke(in.ctx(), t, conn, m, req))) == codes.Unauthenticated {
				t.Errorf("%s asks for a token", path(m))
			}
			continue
		}
		for what, token := range map[string]string{"no": "", "a wrong": "coppice_wrong", "an expired": in.expired} {
			_, conn := in.as(token)
			refused += in.refuses(m, req, conn, what, codes.Unauthenticated)
		}
		wrong := in.worker
		if s := m.Parent().Name(); s == "WorkerService" || s == "AdminService" {
			wrong = in.own
		}
		if m.Parent().Name() != "ServerReflection" { // which is for all that have a token
			_, conn := in.as(wrong)
			refused += in.refuses(m, req, conn, "another role's", codes.PermissionDenied)
		}
		n := in.strange(m, b, req, names)
		refused, blind = refused+n, blind+1-n
		_, conn := in.as(in.ownAdmin)
		switch _, err := invoke(in.ctx(), t, conn, m, req); status.Code(err) {
		case codes.NotFound, codes.Unauthenticated, codes.PermissionDenied, codes.Unimplemented:
			t.Errorf("%s can't be called by those who may: %v", path(m), err)
		}
	}
	if len(methods) < 30 {
		t.Errorf("the server has only %d methods", len(methods))
	}
	t.Logf("%d calls: %d refusals; %d calls by another tenant that name nothing show and change nothing; %d calls need no token",
		len(methods), refused, blind, opened)
}

func second[A any](_ A, err error) error { return err }

// refuses checks that a call is refused with no more than a code, also before it has said
// what it wants, and counts it.
func (in *inhabited) refuses(m protoreflect.MethodDescriptor, req proto.Message, conn *grpc.ClientConn, whose string, want codes.Code) int {
	in.t.Helper()
	_, err := invoke(in.ctx(), in.t, conn, m, req)
	st := status.Convert(err)
	if st.Code() != want || len(st.Details()) != 0 || len(st.Message()) > 40 {
		in.t.Errorf("%s with %s token: %v", path(m), whose, err)
	}
	if early := reach(in.ctx(), conn, m); status.Convert(early).String() != st.String() {
		in.t.Errorf("%s with %s token, before it says what it wants: %v", path(m), whose, early)
	}
	return 1
}

// reach begins a call and sends nothing.
func reach(ctx context.Context, conn grpc.ClientConnInterface, m protoreflect.MethodDescriptor) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path(m), grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	return stream.RecvMsg(&emptypb.Empty{})
}

// strange checks that a call by another tenant, which names what acme has, is
// refused as if it were not there; or, if a call names nothing, that its answer has
// nothing of acme's. Either way nothing changes for acme.
func (in *inhabited) strange(m protoreflect.MethodDescriptor, b belongings, req proto.Message, names bool) (refused int) {
	in.t.Helper()
	token := in.other
	if m.Parent().Name() == "AdminService" {
		token = in.otherAdmin
	}
	_, conn := in.as(token)
	if m.Parent().Name() == "WorkerService" {
		return in.refuses(m, req, conn, "another tenant's", codes.PermissionDenied)
	}
	before := in.acme.state(b)
	resp, err := invoke(in.ctx(), in.t, conn, m, req)
	if after := in.acme.state(b); after != before {
		in.t.Errorf("%s by another tenant changed %s\nto %s", path(m), before, after)
	}
	if !names {
		if said := protojson.Format(resp) + status.Convert(err).Message(); strings.Contains(said, secret) ||
			strings.Contains(said, b.session) || strings.Contains(said, b.task) || strings.Contains(said, b.approval) {
			in.t.Errorf("%s shows another tenant %s", path(m), said)
		}
		return 0
	}
	id := func() string { return uuid.Must(uuid.NewV7()).String() }
	nowhere := belongings{id(), id(), id(), id(), "nobody"}
	missing, _ := nowhere.request(in.t, m)
	_, want := invoke(in.ctx(), in.t, conn, m, missing)
	said := strings.NewReplacer(b.session, nowhere.session, b.task, nowhere.task, b.approval, nowhere.approval, b.agent, nowhere.agent).
		Replace(status.Convert(err).Proto().String())
	if status.Code(err) != codes.NotFound || said != status.Convert(want).Proto().String() {
		in.t.Errorf("%s of another tenant's: %v; of what is not there: %v", path(m), err, want)
	}
	return 1
}

package assembly_test

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/auth/authtest"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestAWatchEndsWithItsToken takes a token away while somebody watches with it.
func TestAWatchEndsWithItsToken(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	kept := k.token(auth.RoleClient, "acme", time.Time{})
	lost := k.token(auth.RoleClient, "acme", time.Time{})
	c := setup(t, `steps: [{text: done}]`, func(d *assembly.Dev) {
		d.Logger = slog.New(slog.DiscardHandler)
		k.guard(d)
	})
	stays, _ := c.as(kept)
	goes, _ := c.as(lost)
	session := stays.create("go").GetId()
	stays.wait(session, "")
	stream, err := goes.WatchSession(goes.ctx(), &pb.WatchSessionRequest{SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	k.entries = k.entries[:1]
	k.write()
	for status.Code(second(goes.GetSession(goes.ctx(), &pb.GetSessionRequest{SessionId: session}))) != codes.Unauthenticated {
		continue // the file is looked at once a second
	}
	stays.hears(session, "the secret", "")
	for {
		resp, err := stream.Recv()
		if err != nil {
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("the watch ended with %v", err)
			}
			break
		}
		if resp.GetEvent().GetRun() > 1 {
			t.Errorf("it was shown %v", resp)
		}
	}
	stays.wait(session, "")
}

// TestAWaitEndsWithItsToken takes a token away while somebody waits with it for a result.
func TestAWaitEndsWithItsToken(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	kept := k.token(auth.RoleClient, "acme", time.Time{})
	lost := k.token(auth.RoleClient, "acme", time.Time{})
	c := setup(t, `steps: [{text: the secret}]`, func(d *assembly.Dev) {
		d.Logger = slog.New(slog.DiscardHandler)
		k.guard(d)
	})
	stays, _ := c.as(kept)
	goes, _ := c.as(lost)
	opened, err := stays.CreateSession(stays.ctx(), &pb.CreateSessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	session, ended := opened.GetSession().GetId(), make(chan error, 1)
	var shown *pb.WaitTaskResponse
	go func() {
		var err error
		shown, err = goes.WaitTask(goes.ctx(), &pb.WaitTaskRequest{SessionId: session, Timeout: durationpb.New(time.Minute)})
		ended <- err
	}()
	k.entries = k.entries[:1]
	k.write()
	for status.Code(second(goes.GetSession(goes.ctx(), &pb.GetSessionRequest{SessionId: session}))) != codes.Unauthenticated {
		continue // the file is looked at once a second
	}
	stays.hears(session, "go", "")
	if err := <-ended; status.Code(err) != codes.Unauthenticated || shown.GetTask() != nil {
		t.Errorf("the wait ended with %v, and shows %v", err, shown)
	}
}

// TestAnOpenPortNeedsTokens: an orchestrator that other machines reach does not
// start without them, and touches nothing.
func TestAnOpenPortNeedsTokens(t *testing.T) {
	t.Parallel()
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Close()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	database := filepath.Join(t.TempDir(), "coppice.db")
	err = assembly.Orchestrator{
		Database: database, Redis: redis.Client(), Pool: assembly.DefaultPool, Limits: tree.DefaultLimits(),
		Listeners: []net.Listener{l}, Logger: quiet(t),
	}.Run(t.Context(), func() { t.Error("it serves") })
	if err == nil || !strings.Contains(err.Error(), "--tokens FILE, listen on 127.0.0.1, or allow it with --insecure") {
		t.Errorf("it ended with %v", err)
	}
	if _, err := os.Stat(database); err == nil {
		t.Error("it has made the database")
	}
}

// TestProcessesThatTrustNobody runs a tree with certificates on both sides and
// tokens, all given as people give them.
func TestProcessesThatTrustNobody(t *testing.T) {
	t.Parallel()
	d := deploy(t, fanOut("3", "2"))
	k := newKeyring(t)
	at := func(name string) string { return filepath.Join(d.dir, name) }
	ca := authtest.NewAuthority(t)
	ca.Issue("orchestrator", at("cert"), at("key"))
	ca.Issue("worker", at("worker-cert"), at("worker-key"))
	for name, text := range map[string]string{
		"ca": string(ca.PEM), "worker-token": k.token(auth.RoleWorker, "", time.Time{}) + "\n", "client-token": k.token(auth.RoleClient, "acme", time.Time{}),
	} {
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d.orchestratorFlags = []string{"--tokens", k.path, "--tls-cert", at("cert"), "--tls-key", at("key"), "--tls-client-ca", at("ca")}
	d.workerFlags = []string{"--tls-ca", at("ca"), "--tls-cert", at("worker-cert"), "--tls-key", at("worker-key"), "--token-file", at("worker-token")}
	d.startAll()
	flags := auth.ClientFlags{TLSCA: at("ca"), TLSCert: at("worker-cert"), TLSKey: at("worker-key"), TokenFile: at("client-token")}
	options, err := flags.Options(d.addresses[0], quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := assembly.Connect(d.addresses[0], options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := newClient(t, conn)
	session := c.create("go").GetId()
	if root := c.wait(session, ""); root.GetState() != pb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("the root is %s: %s", root.GetState(), root.GetDetail())
	}
}

package assembly_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/auth"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/proctest"
)

// health asks an address until it is as it should be.
func (d *deployment) health(address, service string, want healthpb.HealthCheckResponse_ServingStatus) {
	d.t.Helper()
	conn, err := assembly.Connect(address)
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	c := newClient(d.t, conn)
	stream, err := healthpb.NewHealthClient(conn).Watch(c.ctx(), &healthpb.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
	if err != nil {
		d.t.Fatal(err)
	}
	var seen []healthpb.HealthCheckResponse_ServingStatus
	for {
		resp, err := stream.Recv()
		if err != nil {
			d.t.Fatalf("%s of %q was %v, then %v; want %s", address, service, seen, err, want)
		}
		if seen = append(seen, resp.GetStatus()); slices.Contains(seen, want) {
			return
		}
	}
}

// TestHealthNeedsNoToken asks processes that trust nobody, and a worker that has
// lost its orchestrator.
func TestHealthNeedsNoToken(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	k := newKeyring(t)
	token := k.token(auth.RoleWorker, "", time.Time{})
	orchestrator, worker := proctest.FreeAddress(t), proctest.FreeAddress(t)
	d.orchestratorFlags = []string{"--tokens", k.path, "--health-listen", orchestrator}
	d.workerFlags = []string{"--health-listen", worker, "--token", token}
	d.startOrchestrator(0)
	d.startWorker("worker 1")
	d.health(orchestrator, "", healthpb.HealthCheckResponse_SERVING)
	d.health(worker, "", healthpb.HealthCheckResponse_SERVING)
	d.health(worker, "orchestrator", healthpb.HealthCheckResponse_SERVING)

	conn, err := assembly.Connect(orchestrator)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := newClient(t, conn)
	if _, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("where health is asked, sessions are listed: %v", err)
	}
	ask := func(program, address string) error {
		cmd := exec.Command(filepath.Join(d.bin, program), assembly.CheckHealth)
		cmd.Env = append(os.Environ(), "COPPICE_HEALTH_LISTEN="+address)
		return cmd.Run()
	}
	if first, second := ask("orchestrator", orchestrator), ask("worker", worker); first != nil || second != nil {
		t.Errorf("the programs find themselves: %v, %v", first, second)
	}
	if ask("orchestrator", proctest.FreeAddress(t)) == nil || ask("worker", "") == nil {
		t.Error("health is found where there is none")
	}
	d.kill(orchestratorName(0))
	d.health(worker, "orchestrator", healthpb.HealthCheckResponse_NOT_SERVING)
	d.health(worker, "", healthpb.HealthCheckResponse_SERVING)
}

// TestAWorkerThatIsRefusedIsNotReady, though it is connected: not before it has a token that
// counts, and no longer once that is taken away.
func TestAWorkerThatIsRefusedIsNotReady(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	k := newKeyring(t)
	k.token(auth.RoleAdmin, "acme", time.Time{})
	d.write("token", k.token(auth.RoleClient, "acme", time.Time{}))
	at := proctest.FreeAddress(t)
	d.orchestratorFlags = []string{"--tokens", k.path}
	d.workerFlags = []string{"--health-listen", at, "--token-file", d.in("token")}
	d.startOrchestrator(0)
	d.startWorker("worker 1")
	d.logged("WARN", "no orchestrator accepts this worker")
	conn, err := assembly.Connect(at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp, err := healthpb.NewHealthClient(conn).Check(newClient(t, conn).ctx(), &healthpb.HealthCheckRequest{Service: "orchestrator"})
	if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("the health of a worker that is refused is %v, %v", resp, err)
	}
	d.write("token", k.token(auth.RoleWorker, "", time.Time{}))
	d.health(at, "orchestrator", healthpb.HealthCheckResponse_SERVING)
	k.entries = k.entries[:1]
	k.write()
	d.health(at, "orchestrator", healthpb.HealthCheckResponse_NOT_SERVING)
}

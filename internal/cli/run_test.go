package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// leaver opens a session, and is gone when it is to be watched.
type leaver struct {
	pb.UnimplementedSessionServiceServer
}

func (leaver) CreateSession(context.Context, *pb.CreateSessionRequest) (*pb.CreateSessionResponse, error) {
	return &pb.CreateSessionResponse{Session: &pb.Session{Id: "kept"}}, nil
}

func (leaver) WatchSession(*pb.WatchSessionRequest, pb.SessionService_WatchSessionServer) error {
	return status.Error(codes.Unavailable, "stopping")
}

// TestARunThatIsGivenUpNamesItsSession, which goes on without it.
func TestARunThatIsGivenUpNamesItsSession(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, served := grpc.NewServer(), make(chan error, 1)
	pb.RegisterSessionServiceServer(server, leaver{})
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	}()
	at := listener.Addr().String()
	token := filepath.Join(t.TempDir(), "a token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "-q", "--orchestrator", at, "--token-file", token, "--insecure", "hello"}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), Process{Args: args, Stdout: &stdout, Stderr: &stderr})
	want := "coppice: the session goes on; see it with: coppice watch --orchestrator " + at + " --insecure --token-file '" + token + "' kept\n"
	if code != exitUnreached || !strings.HasPrefix(stderr.String(), want) || stdout.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, &stdout, &stderr)
	}
}

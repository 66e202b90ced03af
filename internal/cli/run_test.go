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

// leaves serves such a service.
func leaves(t *testing.T) (at string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, served := grpc.NewServer(), make(chan error, 1)
	pb.RegisterSessionServiceServer(server, leaver{})
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// TestARunThatIsGivenUpNamesItsSession, which goes on without it.
func TestARunThatIsGivenUpNamesItsSession(t *testing.T) {
	t.Parallel()
	at := leaves(t)
	token := filepath.Join(t.TempDir(), "a token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "-q", "--orchestrator", at, "--token-file", token, "--insecure", "hello"}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), Process{Args: args, Stdout: &stdout, Stderr: &stderr})
	want := "coppice: the session continues; watch it with: coppice watch --orchestrator " + at + " --insecure --token-file '" + token + "' kept\n"
	if code != exitUnavailable || !strings.HasPrefix(stderr.String(), want) || stdout.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, &stdout, &stderr)
	}
}

// TestTextsAreUTF8: what is not is a mistake of who typed it, in whatever it is.
func TestTextsAreUTF8(t *testing.T) {
	t.Parallel()
	at := leaves(t)
	const id = "00000000-0000-7000-8000-000000000000"
	for name, args := range map[string][]string{
		"a reason":  {"deny", id, "--message", "a\xffb"},
		"a title":   {"rename", id, "\xff"},
		"an agent":  {"spawn", id, "--agent", "\xff", "look"},
		"a stream":  {"transcript", id[1:] + "\xff"},
		"a session": {"run", "-q", "--shared-workspace", "\xff", "hello"},
	} {
		var stdout, stderr bytes.Buffer
		code := Main(t.Context(), Process{Args: append([]string{args[0], "--orchestrator", at}, args[1:]...), Stdout: &stdout, Stderr: &stderr})
		if code != exitUsage || !strings.HasSuffix(stderr.String(), "the text is not UTF-8\n") || stdout.Len() > 0 {
			t.Errorf("%s: exit code %d: %s%s", name, code, &stdout, &stderr)
		}
	}
}

// TestADefinitionIsUTF8: of one that is not it is said as of those in directories, before anybody
// is asked.
func TestADefinitionIsUTF8(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "broken.md")
	if err := os.WriteFile(file, []byte("---\nname: x\ndescription: \u00e9\ufffd\xc3\nmode: both\n---\nhi\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := Main(t.Context(), Process{Args: []string{"agents", "put", "--orchestrator", "127.0.0.1:1", file}, Stdout: &stdout, Stderr: &stderr})
	if want := "coppice: " + file + ":3: expected text in UTF-8\n"; code != exitUsage || stderr.String() != want || stdout.Len() > 0 {
		t.Errorf("exit code %d: %s%s", code, &stdout, &stderr)
	}
}

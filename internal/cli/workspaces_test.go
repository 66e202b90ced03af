package cli

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// finder is there for sessions, but for the last one that it is asked for.
type finder struct {
	pb.UnimplementedAdminServiceServer
	asked []int // how many with each call
}

func (f *finder) FindSessions(_ context.Context, req *pb.FindSessionsRequest) (*pb.FindSessionsResponse, error) {
	ids := req.GetSessionIds()
	f.asked = append(f.asked, len(ids))
	return &pb.FindSessionsResponse{SessionIds: ids[:len(ids)-1]}, nil
}

// TestPrune asks for as many sessions at once as an orchestrator takes, and asks nothing else
// of one of an older release.
func TestPrune(t *testing.T) {
	t.Parallel()
	f := &finder{}
	for name, test := range map[string]struct {
		server pb.AdminServiceServer
		dirs   int
		asked  []int
		left   int
		code   int
		said   string
	}{
		"many":             {f, maxFindSessions + 2, []int{maxFindSessions, 2}, maxFindSessions, exitOK, ""},
		"an older release": {&pb.UnimplementedAdminServiceServer{}, 2, nil, 2, exitRefused, "the orchestrator runs an older release"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			for range test.dirs {
				if err := os.Mkdir(filepath.Join(root, uuid.Must(uuid.NewV7()).String()), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			complaints, code := prune(t, test.server, root)
			left, err := os.ReadDir(root)
			if code != test.code || !strings.Contains(complaints, test.said) || len(left) != test.left || err != nil {
				t.Errorf("exit code %d, %d directories are left, %v: %s", code, len(left), err, complaints)
			}
			if test.server == f && !slices.Equal(f.asked, test.asked) {
				t.Errorf("it asked for %v", f.asked)
			}
		})
	}
}

// prune deletes what a server says is gone.
func prune(t *testing.T, of pb.AdminServiceServer, root string) (complaints string, code int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterAdminServiceServer(server, of)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	var stdout, stderr bytes.Buffer
	code = Main(t.Context(), Process{
		Args:   []string{"workspaces", "prune", "--orchestrator", listener.Addr().String(), "--delete", root},
		Stdout: &stdout, Stderr: &stderr, Getenv: func(string) string { return "" },
	})
	server.Stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		t.Error(err)
	}
	return stderr.String(), code
}

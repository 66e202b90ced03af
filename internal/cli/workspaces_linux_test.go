package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// one has a session.
type one struct {
	pb.UnimplementedAdminServiceServer
	id string
}

func (o one) FindSessions(context.Context, *pb.FindSessionsRequest) (*pb.FindSessionsResponse, error) {
	return &pb.FindSessionsResponse{SessionIds: []string{o.id}}, nil
}

// TestPruneGoesOn where a directory may not be written to, and where one can't be removed, which
// takes root to show.
func TestPruneGoesOn(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var dirs []string
	for range 4 {
		dir := filepath.Join(root, uuid.Must(uuid.NewV7()).String()) // they are gone through in this order
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "mod/x"), 0o700), os.WriteFile(filepath.Join(dir, "mod/x/f"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	there, foreign, closed := dirs[0], dirs[1], dirs[2]
	if err := errors.Join(os.Chmod(filepath.Join(closed, "mod/x"), 0o555), os.Chmod(filepath.Join(closed, "mod"), 0o555)); err != nil {
		t.Fatal(err)
	}
	want := []string{there}
	if os.Getuid() == 0 {
		want = append(want, foreign)
		const user = 1234
		for _, path := range []string{root, closed, closed + "/mod", closed + "/mod/x", dirs[3], dirs[3] + "/mod", dirs[3] + "/mod/x"} {
			if err := os.Chown(path, user, user); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Dir(root), 0o711); err != nil {
			t.Fatal(err)
		}
		runtime.LockOSThread() // it is this thread's user alone
		defer runtime.UnlockOSThread()
		if _, err := unix.SetfsuidRetUid(user); err != nil {
			t.Fatal(err)
		}
	}
	complaints, code := prune(t, one{id: filepath.Base(there)}, root)
	if _, err := unix.SetfsuidRetUid(os.Geteuid()); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || strings.Join(left, "\n") != strings.Join(want, "\n") {
		t.Errorf("left are %v, %v, not %v", left, err, want)
	}
	wantCode := exitOK
	if len(want) > 1 {
		wantCode = exitRefused
	}
	if told := strings.Contains(complaints, filepath.Base(foreign)); code != wantCode || told != (code != exitOK) {
		t.Errorf("exit code %d: %s", code, complaints)
	}
}

package cli_test

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-run/coppice/internal/cli"
)

// closed is an output that nobody reads any more.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestNothingIsSaidOfAnOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out  io.Writer
		code int
	}{
		"it is read":         {io.Discard, 0},
		"it is not any more": {closed{}, 141},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var complaints strings.Builder
			p := cli.Process{Args: strings.Fields("token --role client --tenant acme --name ci"), Stdout: c.out, Stderr: &complaints}
			if code := cli.Main(t.Context(), p); code != c.code || complaints.Len() > 0 {
				t.Errorf("exit code %d, want %d: %s", code, c.code, &complaints)
			}
		})
	}
}

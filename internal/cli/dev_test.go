package cli

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

// TestASecondDevNamesWhatToChoose.
func TestASecondDevNamesWhatToChoose(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	var stderr bytes.Buffer
	args := []string{"dev", "--listen", taken.Addr().String(), "--data", dir, "--workspace", dir}
	code := Main(t.Context(), Process{Args: args, Stdout: io.Discard, Stderr: &stderr, Getenv: func(string) string { return "" }})
	if want := "use a different --listen and a different --data\n"; code != exitRefused || !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("exit code %d: %s", code, &stderr)
	}
}

package sandbox

import (
	"bytes"
	"os"
	"testing"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir()
	s, err := New(Config{Workspace: dir, native: os.Getenv("NATIVE") != ""})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s)
	var out bytes.Buffer
	p, err := s.Start(t.Context(), Command{Argv: []string{"bash", "-c", "id; env; pwd; ls -la / /tmp /dev .; touch x; ls -ln; cat /proc/self/status | grep -iE 'cap|secc|nonew'; ls /proc; mount; mknod y p; ulimit -a; ls -l /proc/self/fd"}, Dir: dir, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(p.Wait())
	t.Log(out.String())
}

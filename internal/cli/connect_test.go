package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

func TestWhereOrchestratorsCanBe(t *testing.T) {
	t.Parallel()
	for target, want := range map[string]bool{
		"127.0.0.1:7070": true, "[::1]:7070": true, "coppice:7070": true, ":7070": true, "a:7070,b:7070": true,
		"dns:///coppice:7070": true, "unix:/run/coppice.sock": true, "unix:coppice.sock": true,
		"": false, "nonsense": false, "nonsense:": false, "::1": false, "a:7070,b": false, "a:7070,": false,
	} {
		if got := isTarget(target); got != want {
			t.Errorf("%q: %t, want %t", target, got, want)
		}
	}
}

// TestAnAddressIsNoPage of the web: what has a scheme has to have one of gRPC's.
func TestAnAddressIsNoPage(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"http://127.0.0.1:7070", "https://coppice:7070", "grpc://a:7070", "a:7070,http://b:7070"} {
		var stderr bytes.Buffer
		code := Main(t.Context(), Process{Args: []string{"sessions", "--orchestrator", page}, Stdout: io.Discard, Stderr: &stderr})
		if want := "expected HOST:PORT"; code != exitUsage || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d, %s", page, code, &stderr)
		}
		if conn, err := assembly.Connect(page); err == nil { // as a worker does
			t.Errorf("there may be orchestrators at %s: %v", page, conn.Close())
		}
	}
	for _, target := range []string{"dns:///coppice:7070", "unix:///run/coppice.sock", "passthrough:///a:7070", "a:7070,b:7070"} {
		conn, err := assembly.Connect(target)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatIsMeant by the end of an id, by a number or by a whole id.
func TestWhatIsMeant(t *testing.T) {
	t.Parallel()
	workers := []*pb.Worker{{Id: "host-1"}, {Id: "1"}, {Id: "other-host-1"}}
	messages := []*pb.Message{{Id: "00000000-0000-7000-8000-00000000abcd", Ordinal: 1}, {Id: "00000000-0000-7000-8000-000000001234", Ordinal: 2}}
	worker := func(name string) (string, error) { return workerOf(workers, name) }
	message := func(name string) (string, error) { return messageOf(messages, name) }
	for _, c := range []struct {
		find       func(string) (string, error)
		name, want string
	}{
		{worker, "1", "1"}, {worker, "host-1", "host-1"}, {worker, "other-host-1", "other-host-1"},
		{worker, "r-host-1", "other-host-1"}, {worker, "", ""}, {worker, "t-1", ""}, {worker, "ost-1", ""},
		{message, "1", messages[0].Id}, {message, "2", messages[1].Id}, {message, "ABCD", messages[0].Id},
		{message, "1234", messages[1].Id}, {message, "234", ""}, {message, "bcd", ""}, {message, "", ""}, {message, "9999", ""},
	} {
		if got, err := c.find(c.name); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q is %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

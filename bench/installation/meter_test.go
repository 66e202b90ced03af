package installation_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/coppice-run/coppice/bench/installation"
)

// TestMeter: it hands on what both sides say, and counts it.
func TestMeter(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	go echo(server)
	m, err := installation.NewMeter(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.Dial("tcp", m.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const times = 3
	answers := bufio.NewReader(client)
	for range times {
		fmt.Fprintln(client, "hello")
		if line, err := answers.ReadString('\n'); err != nil || line != "hello\n" {
			t.Fatalf("the answer is %q, %v", line, err)
		}
	}
	want := installation.Counts{Up: 6 * times, Down: 6 * times, RoundTrips: times, Connections: 1}
	if got := m.Counts(); got != want {
		t.Errorf("counted were %+v, want %+v", got, want)
	}
	if got := m.Counts().Since(want); got != (installation.Counts{}) {
		t.Errorf("counted since were %+v", got)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := answers.ReadByte(); err == nil {
		t.Error("the connection goes on without its meter")
	}
}

// echo says line by line what one client says.
func echo(l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = io.Copy(c, c) // until the client is gone
}

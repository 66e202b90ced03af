package firstbyte

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
)

// hangTimeout is longer than anything here takes, and shorter than a handshake of gRPC may.
const hangTimeout = 30 * time.Second

func listen(t *testing.T) *listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	of := Listener(l).(*listener)
	t.Cleanup(func() {
		if err := of.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return of
}

func dial(t *testing.T, l net.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be closed already
	if err := c.SetDeadline(time.Now().Add(hangTimeout)); err != nil {
		t.Fatal(err)
	}
	return c
}

// expectEnd waits until the other end has closed a connection.
func expectEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the connection gave %d bytes and %v", n, err)
	}
}

// TestSilentConnections do not keep a gRPC server from serving others, or from stopping.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	l := listen(t)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	silent := dial(t, l)
	client, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	// Connections are accepted in turn, so the silent one is too.
	if _, err := healthpb.NewHealthClient(client).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { server.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(hangTimeout):
		t.Fatal("the server does not stop")
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	expectEnd(t, silent)
}

// TestSilenceEnds by closing the connection.
func TestSilenceEnds(t *testing.T) {
	t.Parallel()
	l := listen(t)
	l.timeout = time.Millisecond
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	expectEnd(t, dial(t, l))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept gave %v", err)
	}
}

// TestWhatArrivedIsRead by the server, from the first byte on. What was closed without one is not
// accepted.
func TestWhatArrivedIsRead(t *testing.T) {
	t.Parallel()
	l := listen(t)
	if err := dial(t, l).Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, l).Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, 5)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestNoSocket is accepted at once.
func TestNoSocket(t *testing.T) {
	t.Parallel()
	inner := bufconn.Listen(1)
	l := Listener(inner)
	defer l.Close()
	connected := make(chan error, 1)
	go func() {
		_, err := inner.Dial()
		connected <- err
	}()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
}

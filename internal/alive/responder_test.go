package alive

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"
)

// patience only guards against hanging.
const patience = 30 * time.Second

// answers has a worker answer on a port of this machine until stop is called.
func answers(t *testing.T, id, address string) (l net.Listener, stop func()) {
	t.Helper()
	l, err := Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Respond(t.Context(), l, id, slog.New(slog.DiscardHandler))
	}()
	stop = func() {
		l.Close()
		<-done
	}
	t.Cleanup(stop)
	return l, stop
}

// heard meets a worker over TCP and waits until it is verified.
func heard(t *testing.T, p *Prober, id string, l net.Listener) *Worker {
	t.Helper()
	w := p.StreamOpened(id, l.Addr(), uint32(Port(l)))
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.verified {
		t.Fatal("it does not answer")
	}
	return w
}

// gone gives a worker that was verified and has ended, and where it was.
func gone(t *testing.T) (w *Worker, address string) {
	t.Helper()
	p := NewProber(Config{})
	t.Cleanup(p.Close)
	l, stop := answers(t, "w", "127.0.0.1:0")
	w = heard(t, p, "w", l)
	stop()
	return w, l.Addr().String()
}

// TestAPortThatIsClosed asks over TCP after a worker that has ended.
func TestAPortThatIsClosed(t *testing.T) {
	t.Parallel()
	w, _ := gone(t)
	expect(t, w)
}

// TestAPortThatIsTaken asks over TCP after a worker in whose place another has come.
func TestAPortThatIsTaken(t *testing.T) {
	t.Parallel()
	w, address := gone(t)
	answers(t, "v", address)
	expect(t, w)
}

// expect waits until a worker is found dead.
func expect(t *testing.T, w *Worker) {
	t.Helper()
	dead := make(chan struct{})
	w.IfDead(patience, func() { close(dead) })
	select {
	case <-dead:
	case <-time.After(patience):
		t.Error("it was not found dead")
	}
}

// TestNobodyHoldsAnAnswerUp connects over and over, without reading and with writing.
func TestNobodyHoldsAnAnswerUp(t *testing.T) {
	t.Parallel()
	l, _ := answers(t, "w", "127.0.0.1:0")
	for range 20 {
		idle, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer idle.Close()
		if _, err := idle.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			t.Log(err) // it may have been closed already
		}
	}
	conn, err := net.DialTimeout("tcp", l.Addr().String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(conn); err != nil || string(said) != "coppice worker w\n" {
		t.Errorf("it says %q, %v", said, err)
	}
}

// TestNoPort: a worker without an address listens nowhere, and one that can't says so.
func TestNoPort(t *testing.T) {
	t.Parallel()
	if l, err := Listen(""); l != nil || err != nil || Port(l) != 0 {
		t.Errorf("%v, %v", l, err)
	}
	l, _ := answers(t, "w", "127.0.0.1:0")
	if _, err := Listen(l.Addr().String()); err == nil {
		t.Error("two listen on one port")
	}
}

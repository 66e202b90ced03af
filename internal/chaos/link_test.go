package chaos_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/chaos"
)

// echo is a link to a server that says what it hears.
func echo(t *testing.T) *chaos.Link {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // it ends when the other side does
			}()
		}
	}()
	link, err := chaos.OpenLink(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), link.Close()); err != nil {
			t.Error(err)
		}
	})
	return link
}

func dial(t *testing.T, l *chaos.Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// hear says something and reads so many bytes of the answer.
func hear(t *testing.T, conn net.Conn, say string, n int) (string, error) {
	t.Helper()
	if _, err := io.WriteString(conn, say); err != nil {
		return "", err
	}
	got := make([]byte, n)
	n, err := io.ReadFull(conn, got)
	return string(got[:n]), err
}

func TestLinkPassesBytes(t *testing.T) {
	t.Parallel()
	conn := dial(t, echo(t))
	said := string(bytes.Repeat([]byte("coppice "), 20_000))
	if got, err := hear(t, conn, said, len(said)); err != nil || got != said {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

// TestHushedLink: what is said over the connections that there were stays unheard.
func TestHushedLink(t *testing.T) {
	t.Parallel()
	link := echo(t)
	before := dial(t, link)
	if got, err := hear(t, before, "before", 6); err != nil || got != "before" {
		t.Fatal(got, err)
	}
	if n := link.Silence(); n != 1 {
		t.Errorf("%d connections were hushed", n)
	}
	if _, err := io.WriteString(before, "anybody?"); err != nil {
		t.Fatal(err)
	}
	if got, err := hear(t, dial(t, link), "later", 5); err != nil || got != "later" {
		t.Error(got, err)
	}
	link.Cut()
	if heard, err := io.ReadAll(before); len(heard) > 0 {
		t.Errorf("over the old one %q came back (%v)", heard, err)
	}
}

func TestCutLinkBreaksItsConnections(t *testing.T) {
	t.Parallel()
	link := echo(t)
	conn := dial(t, link)
	if _, err := hear(t, conn, "a", 1); err != nil {
		t.Fatal(err)
	}
	if n := link.Cut(); n != 1 {
		t.Errorf("%d connections were cut", n)
	}
	if got, err := hear(t, conn, "b", 1); err == nil {
		t.Errorf("a cut connection said %q", got)
	}
	if _, err := hear(t, dial(t, link), "c", 1); err != nil {
		t.Errorf("the next connection: %v", err)
	}
}

func TestLinkBreaksAfterSomeBytes(t *testing.T) {
	t.Parallel()
	link := echo(t)
	link.Set(chaos.Conditions{Cut: 7}) // of both directions together: five and two
	if got, err := hear(t, dial(t, link), "hello", 5); got != "he" || err == nil {
		t.Errorf("it said %q, %v", got, err)
	}
}

func TestBlackHoleHoldsBytesBack(t *testing.T) {
	t.Parallel()
	link := echo(t)
	old := dial(t, link)
	if _, err := hear(t, old, "a", 1); err != nil {
		t.Fatal(err)
	}
	link.Set(chaos.BlackHole())
	late := dial(t, link)
	for _, conn := range []net.Conn{old, late} {
		if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if got, err := hear(t, conn, "b", 1); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a black hole said %q, %v", got, err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	link.Set(chaos.Conditions{})
	for _, conn := range []net.Conn{old, late} {
		if got, err := hear(t, conn, "c", 2); got != "bc" {
			t.Errorf("when it had cleared up it said %q, %v", got, err)
		}
	}
}

func TestLinkIsLate(t *testing.T) {
	t.Parallel()
	link := echo(t)
	conn := dial(t, link)
	for _, w := range []chaos.Conditions{{Delay: 30 * time.Millisecond}, {Rate: 100}} {
		link.Set(w)
		began := time.Now()
		if _, err := hear(t, conn, "abc", 3); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 60*time.Millisecond {
			t.Errorf("%+v: there and back in %s", w, took)
		}
	}
}

package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/auth/authtest"
)

// serve runs a server whose health can be asked.
func serve(t *testing.T, s Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(s.Transport()))
	healthpb.RegisterHealthServer(server, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// ask opens a connection, calls, and gives the name in the server's certificate.
func ask(t *testing.T, address string, f ClientFlags) (string, error) {
	t.Helper()
	options, err := f.Options(address, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var from peer.Peer
	_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Peer(&from))
	if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && err == nil {
		return info.State.PeerCertificates[0].Subject.CommonName, nil
	}
	return "", err
}

type files struct{ dir string }

func (f files) at(name string) string { return filepath.Join(f.dir, name) }

func TestTLS(t *testing.T) {
	t.Parallel()
	f := files{t.TempDir()}
	ours, others := authtest.NewAuthority(t), authtest.NewAuthority(t)
	write(t, f.at("ca"), ours.PEM)
	write(t, f.at("other-ca"), others.PEM)
	ours.Issue("server", f.at("cert"), f.at("key"))
	ours.Issue("worker", f.at("worker-cert"), f.at("worker-key"))
	others.Issue("stranger", f.at("stranger-cert"), f.at("stranger-key"))
	log := slog.New(slog.DiscardHandler)
	open := func(flags ServerFlags) string {
		s, err := flags.Open(log)
		if err != nil {
			t.Fatal(err)
		}
		return serve(t, s)
	}
	plain := open(ServerFlags{})
	oneWay := open(ServerFlags{TLSCert: f.at("cert"), TLSKey: f.at("key")})
	mutual := open(ServerFlags{TLSCert: f.at("cert"), TLSKey: f.at("key"), TLSClientCA: f.at("ca")})
	trusting := ClientFlags{TLSCA: f.at("ca")}
	showing := ClientFlags{TLSCA: f.at("ca"), TLSCert: f.at("worker-cert"), TLSKey: f.at("worker-key")}
	stranger := ClientFlags{TLSCA: f.at("ca"), TLSCert: f.at("stranger-cert"), TLSKey: f.at("stranger-key")}
	for i, c := range []struct {
		address string
		flags   ClientFlags
		fits    bool
	}{
		{plain, ClientFlags{}, true},
		{plain, trusting, false},
		{oneWay, trusting, true},
		{oneWay, showing, true},
		{oneWay, ClientFlags{}, false},
		{oneWay, ClientFlags{TLSCA: f.at("other-ca")}, false},
		{oneWay, ClientFlags{TLS: true}, false},
		{mutual, showing, true},
		{mutual, trusting, false},
		{mutual, stranger, false},
		{mutual, ClientFlags{}, false},
	} {
		if _, err := ask(t, c.address, c.flags); (err == nil) != c.fits || err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("%d: %v", i, err)
		}
	}
	for what, flags := range map[string]ServerFlags{
		"no key":       {TLSCert: f.at("cert")},
		"no cert":      {TLSKey: f.at("key")},
		"only clients": {TLSClientCA: f.at("ca")},
		"no match":     {TLSCert: f.at("cert"), TLSKey: f.at("worker-key")},
		"no authority": {TLSCert: f.at("cert"), TLSKey: f.at("key"), TLSClientCA: f.at("key")},
		"no file":      {TLSCert: f.at("none"), TLSKey: f.at("key")},
		"no tokens":    {TokenFlags: TokenFlags{Tokens: f.at("none")}},
	} {
		if _, err := flags.Open(log); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// TestCertificatesAreReplaced: new connections go by what the files say then, and a
// pair that does not fit, as while only one of its files is new, changes nothing.
func TestCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	f := files{t.TempDir()}
	first, next := authtest.NewAuthority(t), authtest.NewAuthority(t)
	write(t, f.at("ca"), append(first.PEM, next.PEM...))
	first.Issue("first", f.at("cert"), f.at("key"))
	c := &clock{at: time.Now()}
	var log strings.Builder
	pair, err := newPairReloader(f.at("cert"), f.at("key"), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	pair.now, pair.checkedAt = c.now, c.at
	address := serve(t, Server{TLS: newReloadingTLS(func() *tls.Config {
		return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair.get()}}
	})})
	check := func(when, want string) {
		t.Helper()
		if name, err := ask(t, address, ClientFlags{TLSCA: f.at("ca")}); err != nil || name != want {
			t.Errorf("%s: %q, %v", when, name, err)
		}
	}
	check("at first", "first")
	next.Issue("next", f.at("cert"), f.at("next-key"))
	c.pass(checkInterval)
	check("half replaced", "first")
	c.pass(checkInterval)
	check("still half replaced", "first")
	pair.mu.Lock() // which guards the log too
	said := log.String()
	pair.mu.Unlock()
	if n := strings.Count(said, "can't be read"); n != 1 {
		t.Errorf("complained %d times: %s", n, said)
	}
	next.Issue("next", f.at("cert"), f.at("key"))
	check("not looked yet", "first")
	c.pass(checkInterval)
	check("replaced", "next")
}

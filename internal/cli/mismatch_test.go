package cli

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/auth"
	"github.com/coppice-run/coppice/internal/auth/authtest"
)

// TestTLSThatDoesNotSuit is a mistake of who has typed, and not an orchestrator that may be there later.
func TestTLSThatDoesNotSuit(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	authtest.NewAuthority(t).Issue("server", cert, key)
	security, err := auth.ServerFlags{TLSCert: cert, TLSKey: key}.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, served := grpc.NewServer(grpc.Creds(security.Transport())), make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	for flag, says := range map[string]string{
		"--json": l.Addr().String() + " requires TLS: set --tls-ca FILE or --tls",
		"--tls":  "the certificate of " + l.Addr().String() + " is not trusted: x509: certificate signed by unknown authority; name the certificate authority to trust with --tls-ca",
	} {
		var said bytes.Buffer
		code := Main(t.Context(), Process{Args: []string{"sessions", flag, "--orchestrator", l.Addr().String()}, Stdout: io.Discard, Stderr: &said})
		if code != exitUsage || said.String() != "coppice: "+says+"\n" {
			t.Errorf("%s: exit code %d: %s", flag, code, &said)
		}
	}
}

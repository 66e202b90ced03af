package auth

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/auth/authtest"
)

// TestMismatch says what of TLS does not suit a server, and nothing of what does.
func TestMismatch(t *testing.T) {
	t.Parallel()
	f := files{t.TempDir()}
	ours, others := authtest.NewAuthority(t), authtest.NewAuthority(t)
	write(t, f.at("ca"), ours.PEM)
	write(t, f.at("other-ca"), others.PEM)
	ours.Issue("server", f.at("cert"), f.at("key"))
	open := func(s ServerFlags) string {
		opened, err := s.Open(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return serve(t, opened)
	}
	plain := open(ServerFlags{})
	protected := open(ServerFlags{TLSCert: f.at("cert"), TLSKey: f.at("key")})
	mutual := open(ServerFlags{TLSCert: f.at("cert"), TLSKey: f.at("key"), TLSClientCA: f.at("ca")})
	silent, err := net.Listen("tcp", "127.0.0.1:0") // answers nothing, and hangs up
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() { silent.Close(); <-done })
	for name, test := range map[string]struct {
		target string
		flags  ClientFlags
		says   string
	}{
		"both plain":               {plain, ClientFlags{}, ""},
		"the server alone is":      {plain, ClientFlags{TLSCA: f.at("ca")}, plain + " does not support TLS: remove --tls-ca and --tls"},
		"the client alone is":      {protected, ClientFlags{}, protected + " requires TLS: set --tls-ca FILE or --tls"},
		"one of several":           {plain + "," + protected, ClientFlags{}, protected + " requires TLS: "},
		"both protected":           {protected, ClientFlags{TLSCA: f.at("ca")}, ""},
		"nobody knows it":          {protected, ClientFlags{TLS: true}, "the certificate of " + protected + " is not trusted: x509: certificate signed by unknown authority; name the certificate authority to trust with --tls-ca"},
		"another authority":        {protected, ClientFlags{TLSCA: f.at("other-ca")}, "the certificate of " + protected + " is not trusted: x509: "},
		"it wants a certificate":   {mutual, ClientFlags{TLSCA: f.at("ca")}, mutual + " refuses the connection: remote error: tls: certificate required; it may require a client certificate: set --tls-cert and --tls-key"},
		"it wants one, and TLS":    {mutual, ClientFlags{}, mutual + " requires TLS: "},
		"it gets one":              {mutual, ClientFlags{TLSCA: f.at("ca"), TLSCert: f.at("cert"), TLSKey: f.at("key")}, ""},
		"it hangs up":              {silent.Addr().String(), ClientFlags{}, ""},
		"it hangs up on TLS":       {silent.Addr().String(), ClientFlags{TLSCA: f.at("ca")}, ""},
		"nobody":                   {"127.0.0.1:1", ClientFlags{TLS: true}, ""},
		"what gRPC alone resolves": {"dns:///" + protected, ClientFlags{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.flags.DiagnoseTLS(t.Context(), test.target)
			if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v, want %q", err, test.says)
			}
		})
	}
}

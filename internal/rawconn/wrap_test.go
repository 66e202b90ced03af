package rawconn_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/coppice-run/coppice/internal/auth/authtest"
	"github.com/coppice-run/coppice/internal/rawconn"
)

// TestCallsGoThrough with and without encryption, and messages of more than a frame.
func TestCallsGoThrough(t *testing.T) {
	t.Parallel()
	server, client := encrypted(t)
	for name, of := range map[string]struct {
		server, client credentials.TransportCredentials
	}{
		"plain": {insecure.NewCredentials(), insecure.NewCredentials()},
		"TLS":   {server, client},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer(grpc.Creds(rawconn.Credentials(of.server)))
			long := strings.Repeat("x", 1<<20)
			serving := health.NewServer()
			serving.SetServingStatus(long, healthpb.HealthCheckResponse_SERVING)
			healthpb.RegisterHealthServer(s, serving)
			go s.Serve(l)
			defer s.Stop()
			conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(rawconn.Credentials(of.client)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for range 10 {
				resp, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{Service: long})
				if err != nil || resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
					t.Fatalf("%v, %v", resp, err)
				}
			}
		})
	}
}

// encrypted returns credentials for TLS.
func encrypted(t *testing.T) (server, client credentials.TransportCredentials) {
	t.Helper()
	authority, dir := authtest.NewAuthority(t), t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	authority.Issue("localhost", cert, key)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}}),
		credentials.NewTLS(&tls.Config{RootCAs: pool, ServerName: "localhost"})
}

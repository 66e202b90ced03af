package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"

	"google.golang.org/grpc/credentials"
)

// reloadingTLS is TLS with certificates that may change: each handshake uses the current files.
// Open connections stay.
type reloadingTLS struct {
	credentials.TransportCredentials // for everything except handshakes

	config func() *tls.Config
}

func newReloadingTLS(config func() *tls.Config) credentials.TransportCredentials {
	return &reloadingTLS{credentials.NewTLS(config()), config}
}

func (f *reloadingTLS) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.config()).ClientHandshake(ctx, authority, conn)
}

func (f *reloadingTLS) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.config()).ServerHandshake(conn)
}

func (f *reloadingTLS) Clone() credentials.TransportCredentials {
	return &reloadingTLS{f.TransportCredentials.Clone(), f.config}
}

// newPairReloader reloads a certificate and its key.
func newPairReloader(cert, key string, log *slog.Logger) (*reloader[tls.Certificate], error) {
	return newReloader(log, func(c [][]byte) (tls.Certificate, error) { return tls.X509KeyPair(c[0], c[1]) }, cert, key)
}

// newPoolReloader reloads a file of certificate authorities.
func newPoolReloader(path string, log *slog.Logger) (*reloader[*x509.CertPool], error) {
	return newReloader(log, func(c [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(c[0]) {
			return nil, errors.New("it contains no certificate")
		}
		return pool, nil
	}, path)
}

// serverTLS returns the credentials of a server. With clientCA it requires client certificates.
func serverTLS(cert, key, clientCA string, log *slog.Logger) (credentials.TransportCredentials, error) {
	own, err := newPairReloader(cert, key, log)
	if err != nil {
		return nil, err
	}
	var clients *reloader[*x509.CertPool]
	if clientCA != "" {
		if clients, err = newPoolReloader(clientCA, log); err != nil {
			return nil, err
		}
	}
	return newReloadingTLS(func() *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.get()}}
		if clients != nil {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.get()
		}
		return c
	}), nil
}

// clientTLS returns the credentials of a client. Without ca it trusts the system's authorities;
// cert is its optional client certificate.
func clientTLS(ca, cert, key string, log *slog.Logger) (credentials.TransportCredentials, error) {
	var authorities *reloader[*x509.CertPool]
	var own *reloader[tls.Certificate]
	var err error
	if ca != "" {
		if authorities, err = newPoolReloader(ca, log); err != nil {
			return nil, err
		}
	}
	if cert != "" {
		if own, err = newPairReloader(cert, key, log); err != nil {
			return nil, err
		}
	}
	return newReloadingTLS(func() *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if authorities != nil {
			c.RootCAs = authorities.get()
		}
		if own != nil {
			c.Certificates = []tls.Certificate{own.get()}
		}
		return c
	}), nil
}

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

// fresh is TLS whose certificates may change: each handshake goes by what the files
// say then. Connections that are open stay.
type fresh struct {
	credentials.TransportCredentials // for all that is not a handshake

	config func() *tls.Config
}

func newFresh(config func() *tls.Config) credentials.TransportCredentials {
	return &fresh{credentials.NewTLS(config()), config}
}

func (f *fresh) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.config()).ClientHandshake(ctx, authority, conn)
}

func (f *fresh) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(f.config()).ServerHandshake(conn)
}

func (f *fresh) Clone() credentials.TransportCredentials {
	return &fresh{f.TransportCredentials.Clone(), f.config}
}

// followPair follows a certificate and its key.
func followPair(cert, key string, log *slog.Logger) (*followed[tls.Certificate], error) {
	return follow(log, func(c [][]byte) (tls.Certificate, error) { return tls.X509KeyPair(c[0], c[1]) }, cert, key)
}

// followPool follows a file of certificate authorities.
func followPool(path string, log *slog.Logger) (*followed[*x509.CertPool], error) {
	return follow(log, func(c [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(c[0]) {
			return nil, errors.New("there is no certificate in it")
		}
		return pool, nil
	}, path)
}

// serverTLS is what a server shows, and, with clientCA, asks of who connects.
func serverTLS(cert, key, clientCA string, log *slog.Logger) (credentials.TransportCredentials, error) {
	own, err := followPair(cert, key, log)
	if err != nil {
		return nil, err
	}
	var clients *followed[*x509.CertPool]
	if clientCA != "" {
		if clients, err = followPool(clientCA, log); err != nil {
			return nil, err
		}
	}
	return newFresh(func() *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own.get()}}
		if clients != nil {
			c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, clients.get()
		}
		return c
	}), nil
}

// clientTLS is whom a client trusts, and, with cert, what it shows. No ca means
// those of the system.
func clientTLS(ca, cert, key string, log *slog.Logger) (credentials.TransportCredentials, error) {
	var authorities *followed[*x509.CertPool]
	var own *followed[tls.Certificate]
	var err error
	if ca != "" {
		if authorities, err = followPool(ca, log); err != nil {
			return nil, err
		}
	}
	if cert != "" {
		if own, err = followPair(cert, key, log); err != nil {
			return nil, err
		}
	}
	return newFresh(func() *tls.Config {
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

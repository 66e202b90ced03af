package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
)

// handshakeTimeout bounds a diagnostic handshake.
const handshakeTimeout = 2 * time.Second

// DiagnoseTLS finds out why a target could not be reached, as far as TLS is the reason. It
// tries a handshake with each address and returns an error that says which flag is wrong. It
// returns nil if the flags are right, if nothing listens there, or if the target is not a list
// of addresses.
func (f ClientFlags) DiagnoseTLS(ctx context.Context, target string) error {
	if strings.Contains(target, ":/") {
		return nil
	}
	differs := expectPlain
	if f.TLS || f.TLSCA != "" {
		ours, err := clientTLS(f.TLSCA, f.TLSCert, f.TLSKey, slog.New(slog.DiscardHandler))
		if err != nil {
			return fmt.Errorf("setting up TLS: %w", err)
		}
		differs = func(ctx context.Context, address string, conn net.Conn) error {
			return expectTLS(ctx, ours, address, conn)
		}
	}
	for _, address := range strings.Split(target, ",") {
		if err := inspect(ctx, address, differs); err != nil {
			return err
		}
	}
	return nil
}

// inspect connects to an address and calls check.
func inspect(ctx context.Context, address string, at func(context.Context, string, net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil // nothing listens there
	}
	defer conn.Close() //nolint:errcheck // it was only looked at
	return at(ctx, address, conn)
}

// expectPlain returns an error if the address speaks TLS, or rejects the handshake with a TLS
// alert.
func expectPlain(ctx context.Context, address string, conn net.Conn) error {
	anybody := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // nothing is sent, and what comes is not looked at
	if err := tls.Client(conn, anybody).HandshakeContext(ctx); err != nil && !isAlert(err) {
		return nil // it does not speak TLS
	}
	return fmt.Errorf("%s requires TLS: set --tls-ca FILE or --tls", address)
}

// expectTLS returns the reason why a TLS handshake fails.
func expectTLS(ctx context.Context, ours credentials.TransportCredentials, address string, conn net.Conn) error {
	protected, _, err := ours.ClientHandshake(ctx, address, conn)
	if err == nil {
		// A server reports only after the handshake that it rejects the client's certificate.
		defer protected.Close() //nolint:errcheck // it was only looked at
		if until, bounded := ctx.Deadline(); bounded {
			err = protected.SetReadDeadline(until)
		}
		if err == nil {
			_, err = protected.Read(make([]byte, 1))
		}
	}
	var plain tls.RecordHeaderError
	var untrusted *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &plain):
		return fmt.Errorf("%s does not support TLS: remove --tls-ca and --tls", address)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is not trusted: %w; name the certificate authority to trust with --tls-ca", address, unknown)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of %s is not trusted: %w", address, untrusted.Err)
	case isAlert(err):
		return fmt.Errorf("%s refuses the connection: %w; it may require a client certificate: set --tls-cert and --tls-key", address, err)
	}
	return nil
}

// isAlert reports whether an error is a TLS alert of the peer.
func isAlert(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "remote error"
}

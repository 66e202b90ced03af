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

// handshakeTimeout is how long an address has for a handshake that is only looked at.
const handshakeTimeout = 2 * time.Second

// DiagnoseTLS looks, once nobody could be reached at a target, whether that is for TLS: it shakes
// hands once more with each address, and says what of the flags does not suit it. It is nil if
// they do, and where it can't be known: nobody is there, or the target is none of addresses.
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

// inspect connects to an address and looks at it.
func inspect(ctx context.Context, address string, at func(context.Context, string, net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil // nobody is there
	}
	defer conn.Close() //nolint:errcheck // it was only looked at
	return at(ctx, address, conn)
}

// expectPlain says so of an address that takes TLS, or refuses it in the terms of TLS.
func expectPlain(ctx context.Context, address string, conn net.Conn) error {
	anybody := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}} //nolint:gosec // nothing is sent, and what comes is not looked at
	if err := tls.Client(conn, anybody).HandshakeContext(ctx); err != nil && !isAlert(err) {
		return nil // it is something else
	}
	return fmt.Errorf("%s speaks TLS: give --tls-ca FILE, or --tls", address)
}

// expectTLS says why a handshake comes to nothing.
func expectTLS(ctx context.Context, ours credentials.TransportCredentials, address string, conn net.Conn) error {
	protected, _, err := ours.ClientHandshake(ctx, address, conn)
	if err == nil {
		// A server says only after the handshake what it thinks of a client's certificate.
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
		return fmt.Errorf("%s does not speak TLS: leave --tls-ca and --tls out", address)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of %s is not trusted: %w; say with --tls-ca whom to trust", address, unknown)
	case errors.As(err, &untrusted):
		return fmt.Errorf("the certificate of %s is not trusted: %w", address, untrusted.Err)
	case isAlert(err):
		return fmt.Errorf("%s refuses the connection: %w; it may want a certificate: --tls-cert and --tls-key", address, err)
	}
	return nil
}

// isAlert reports whether an error is one that the other side has told of in the terms of TLS.
func isAlert(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "remote error"
}

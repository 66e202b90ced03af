package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coppice-run/coppice/internal/rawconn"
)

// ClientFlags are the command-line options for connections to a server.
type ClientFlags struct {
	Token     string `env:"COPPICE_TOKEN" xor:"token" placeholder:"TOKEN" help:"Token for the calls. Other users can see command lines: prefer the environment or a file."`
	TokenFile string `env:"COPPICE_TOKEN_FILE" xor:"token" placeholder:"FILE" help:"File that contains the token; reread when it changes."`
	TLS       bool   `name:"tls" env:"COPPICE_TLS" help:"Connect over TLS and trust the system's CA certificates."`
	TLSCA     string `name:"tls-ca" env:"COPPICE_TLS_CA" placeholder:"FILE" help:"Connect over TLS and trust these CA certificates."`
	TLSCert   string `name:"tls-cert" env:"COPPICE_TLS_CERT" placeholder:"FILE" help:"TLS client certificate (mTLS)."`
	TLSKey    string `name:"tls-key" env:"COPPICE_TLS_KEY" placeholder:"FILE" help:"Private key of that certificate."`
	Insecure  bool   `env:"COPPICE_INSECURE" help:"Send the token to other machines even without TLS."`
}

// Options returns the dial options for a target as the user entered it. It reads the files now,
// and again when they change.
func (f ClientFlags) Options(target string, log *slog.Logger) ([]grpc.DialOption, error) {
	encrypted := f.TLS || f.TLSCA != ""
	switch {
	case f.Token != "" && f.TokenFile != "":
		return nil, errors.New("--token and --token-file cannot be used together")
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return nil, errors.New("--tls-cert and --tls-key must be set together")
	case f.TLSCert != "" && !encrypted:
		return nil, errors.New("--tls-cert requires --tls-ca or --tls")
	case f.Token+f.TokenFile != "" && !encrypted && !f.Insecure && !allLocal(target):
		return nil, fmt.Errorf("the token would be sent to %s unencrypted: set --tls-ca FILE or --tls, or allow it with --insecure", target)
	}
	transport := insecure.NewCredentials()
	if encrypted {
		var err error
		if transport, err = clientTLS(f.TLSCA, f.TLSCert, f.TLSKey, log); err != nil {
			return nil, fmt.Errorf("setting up TLS: %w", err)
		}
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(rawconn.Credentials(transport))}
	switch {
	case f.Token != "":
		token, err := readToken([]byte(f.Token))
		if err != nil {
			return nil, fmt.Errorf("the token: %w", err)
		}
		options = append(options, WithToken(token))
	case f.TokenFile != "":
		file, err := newReloader(log, func(c [][]byte) (string, error) { return readToken(c[0]) }, f.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("the file of the token: %w", err)
		}
		options = append(options, grpc.WithPerRPCCredentials(bearer(file.get)))
	}
	return options, nil
}

// WithToken returns a dial option that sends a token with each call.
func WithToken(token string) grpc.DialOption {
	return grpc.WithPerRPCCredentials(bearer(func() string { return token }))
}

// bearer returns the current token.
type bearer func() string

var _ credentials.PerRPCCredentials = bearer(nil)

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{header: scheme + " " + b()}, nil
}

// RequireTransportSecurity returns false, because [ClientFlags] decides where a token may be
// sent.
func (bearer) RequireTransportSecurity() bool { return false }

func readToken(data []byte) (string, error) {
	token := strings.TrimSpace(string(data))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("it must contain one token and nothing else")
	}
	return token, nil
}

// allLocal reports whether all addresses of a target are on this machine.
func allLocal(target string) bool {
	for _, address := range strings.Split(target, ",") {
		address = strings.TrimSpace(address)
		if at := strings.LastIndexByte(address, '/'); at >= 0 {
			if strings.HasPrefix(address, "unix:") {
				continue
			}
			address = address[at+1:]
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/coppice-run/coppice/internal/rawconn"
)

// TokenFlags are the options for the tokens that a server accepts.
type TokenFlags struct {
	Tokens   string `env:"COPPICE_TOKENS" placeholder:"FILE" help:"YAML file of the tokens that calls must carry; coppice token creates them. Without it, everyone on this machine has full access, and other machines have access only with --insecure."`
	Insecure bool   `env:"COPPICE_INSECURE" help:"Serve other machines without tokens. Everyone who can reach the port has full access."`
}

// ServerFlags are the security options of a server.
type ServerFlags struct {
	TokenFlags

	TLSCert     string `name:"tls-cert" env:"COPPICE_TLS_CERT" placeholder:"FILE" help:"TLS certificate of the server, followed by the intermediate certificates."`
	TLSKey      string `name:"tls-key" env:"COPPICE_TLS_KEY" placeholder:"FILE" help:"Private key of that certificate."`
	TLSClientCA string `name:"tls-client-ca" env:"COPPICE_TLS_CLIENT_CA" placeholder:"FILE" help:"CA certificates for client certificates (mTLS). Default: clients need none."`
}

// Server is the security configuration of a server.
type Server struct {
	Tokens   *Tokens                          // nil: every caller may do everything
	TLS      credentials.TransportCredentials // nil: no TLS
	Insecure bool                             // serve other machines even without tokens
}

// Open reads the files of the options.
func (f TokenFlags) Open(log *slog.Logger) (Server, error) {
	s := Server{Insecure: f.Insecure}
	if f.Tokens == "" {
		return s, nil
	}
	tokens, err := OpenTokens(f.Tokens, log)
	if err != nil {
		return Server{}, fmt.Errorf("the file of tokens: %w", err)
	}
	s.Tokens = tokens
	return s, nil
}

// Open reads the files of the options.
func (f ServerFlags) Open(log *slog.Logger) (Server, error) {
	s, err := f.TokenFlags.Open(log)
	switch {
	case err != nil:
		return Server{}, err
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return Server{}, errors.New("--tls-cert and --tls-key must be set together")
	case f.TLSCert == "" && f.TLSClientCA != "":
		return Server{}, errors.New("--tls-client-ca requires --tls-cert and --tls-key")
	case f.TLSCert == "":
		return s, nil
	}
	s.TLS, err = serverTLS(f.TLSCert, f.TLSKey, f.TLSClientCA, log)
	if err != nil {
		return Server{}, fmt.Errorf("setting up TLS: %w", err)
	}
	return s, nil
}

// CheckListen returns an error if the server may not listen at an address, and logs what is not
// protected.
func (s Server) CheckListen(ctx context.Context, at net.Addr, log *slog.Logger) error {
	near, inside := reach(at)
	switch {
	case inside:
	case s.Tokens != nil && s.TLS == nil && !near:
		log.WarnContext(ctx, "tokens are sent over the network unencrypted: set a certificate for the server, or protect the network", "listen", at.String())
	case s.Tokens != nil:
	case near:
		log.WarnContext(ctx, "calls need no token: every program on this machine has full access", "listen", at.String())
	case s.Insecure:
		log.WarnContext(ctx, "calls need no token: every client that can reach the port has full access", "listen", at.String())
	default:
		return fmt.Errorf("%s can be reached from other machines, and no tokens are configured: set --tokens FILE, listen on 127.0.0.1, or allow it with --insecure", at)
	}
	return nil
}

// reach reports whether only this machine can connect, and whether only this process can.
func reach(at net.Addr) (near, inside bool) {
	switch at := at.(type) {
	case *net.TCPAddr:
		return at.IP.IsLoopback(), false
	case *net.UnixAddr:
		return true, false
	}
	return true, true // an in-memory pipe
}

// Transport returns the transport credentials of the server.
func (s Server) Transport() credentials.TransportCredentials {
	transport := s.TLS
	if transport == nil {
		transport = insecure.NewCredentials()
	}
	return rawconn.Credentials(transport)
}

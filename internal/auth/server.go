package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// TokenFlags are the options for the tokens that a server accepts.
type TokenFlags struct {
	Tokens   string `env:"COPPICE_TOKENS" placeholder:"FILE" help:"YAML file of the tokens that calls have to carry; coppice token makes them. Without it anybody may do everything, and only on this machine."`
	Insecure bool   `env:"COPPICE_INSECURE" help:"Serve other machines without tokens: whoever reaches the port may do everything."`
}

// ServerFlags are the security options of a server.
type ServerFlags struct {
	TokenFlags

	TLSCert     string `name:"tls-cert" env:"COPPICE_TLS_CERT" placeholder:"FILE" help:"Certificate to serve with over TLS, with those between it and its authority."`
	TLSKey      string `name:"tls-key" env:"COPPICE_TLS_KEY" placeholder:"FILE" help:"Key of that certificate."`
	TLSClientCA string `name:"tls-client-ca" env:"COPPICE_TLS_CLIENT_CA" placeholder:"FILE" help:"Authorities of which clients need a certificate (mTLS); by default they need none."`
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
		return Server{}, errors.New("--tls-cert and --tls-key belong together")
	case f.TLSCert == "" && f.TLSClientCA != "":
		return Server{}, errors.New("--tls-client-ca needs --tls-cert and --tls-key")
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
		log.WarnContext(ctx, "tokens cross the network unencrypted: give the server a certificate, or protect the network", "listen", at.String())
	case s.Tokens != nil:
	case near:
		log.WarnContext(ctx, "calls need no token: every program of this machine may do everything", "listen", at.String())
	case s.Insecure:
		log.WarnContext(ctx, "calls need no token: whoever reaches the port may do everything", "listen", at.String())
	default:
		return fmt.Errorf("%s can be reached from other machines, and there are no tokens: give --tokens FILE, listen on 127.0.0.1, or say --insecure", at)
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
	if s.TLS == nil {
		return insecure.NewCredentials()
	}
	return s.TLS
}

package rawconn

import (
	"context"
	"net"

	"google.golang.org/grpc/credentials"
)

// Credentials are gRPC's credentials for connections that do not wake the monitor thread.
func Credentials(of credentials.TransportCredentials) credentials.TransportCredentials {
	return wrapping{of}
}

type wrapping struct {
	credentials.TransportCredentials
}

func (w wrapping) ClientHandshake(ctx context.Context, authority string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return w.TransportCredentials.ClientHandshake(ctx, authority, Wrap(c))
}

func (w wrapping) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return w.TransportCredentials.ServerHandshake(Wrap(c))
}

func (w wrapping) Clone() credentials.TransportCredentials {
	return wrapping{w.TransportCredentials.Clone()}
}

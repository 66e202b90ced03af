package assembly

import (
	"fmt"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/coppice-run/coppice/internal/api"
	"github.com/coppice-run/coppice/internal/rawconn"
	"github.com/coppice-run/coppice/internal/route"
)

// Times of a client's connection: the delays between attempts to connect, and how soon a
// connection that is dead but not closed is detected.
const (
	reconnectMin = 50 * time.Millisecond
	reconnectMax = 2 * time.Second
	pingAfter    = 10 * time.Second
	pingTimeout  = 3 * time.Second
)

// maxResponseBytes bounds one response. A large tree is a large response.
const maxResponseBytes = 64 << 20

// Connect creates a client connection to orchestrators. Calls spread over all replicas that the
// target names: one name with several addresses, or a comma-separated list of host:port. Later
// options override earlier ones. Without options the connection is not encrypted, and calls carry
// no token.
func Connect(target string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(rawconn.Credentials(insecure.NewCredentials())),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + route.Policy + `":{}}]}`),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
		grpc.WithStaticStreamWindowSize(api.StreamWindow), grpc.WithStaticConnWindowSize(api.ConnWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: pingAfter, Timeout: pingTimeout, PermitWithoutStream: true,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: reconnectMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax,
			},
			MinConnectTimeout: reconnectMax,
		}),
	}, more...)
	addresses, err := splitAddresses(target)
	if err != nil {
		return nil, fmt.Errorf("connecting to orchestrators: %w", err)
	}
	if len(addresses) > 1 {
		list := manual.NewBuilderWithScheme("list")
		var state resolver.State
		for _, a := range addresses {
			address := resolver.Address{Addr: a}
			if host, _, err := net.SplitHostPort(a); err == nil {
				address.ServerName = host // the name to expect in its certificate
			}
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
		}
		list.InitialState(state)
		options, addresses = append(options, grpc.WithResolvers(list)), []string{"list:///orchestrators"}
	}
	target = addresses[0]
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", target, err)
	}
	return conn, nil
}

// splitAddresses returns the addresses of a target, or an error if one of them can never be reached.
func splitAddresses(target string) ([]string, error) {
	addresses := strings.Split(target, ",")
	for i, a := range addresses {
		a = strings.TrimSpace(a)
		if a == "" {
			return nil, fmt.Errorf("an address in %q is empty", target)
		}
		// gRPC would take an unknown scheme for a part of the name. A resolver that is passed as an option
		// is unknown here too, but its target has no host. Of several addresses, no resolver is asked.
		scheme, rest, has := strings.Cut(a, "://")
		unknown := resolver.Get(scheme) == nil && !strings.HasPrefix(rest, "/") || len(addresses) > 1 && scheme != "unix"
		if has && unknown || !strings.Contains(a, ":") {
			return nil, fmt.Errorf("%q is not an address: expected HOST:PORT", a)
		}
		addresses[i] = a
	}
	return addresses, nil
}

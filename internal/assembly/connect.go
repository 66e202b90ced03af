package assembly

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/coppice-run/coppice/internal/route"
)

// Times of a client's connection: how soon it tries again after a failure, and
// how soon it notices a link that is dead but not closed.
const (
	reconnectMin = 50 * time.Millisecond
	reconnectMax = 2 * time.Second
	pingAfter    = 10 * time.Second
	pingTimeout  = 3 * time.Second
)

// maxAnswerBytes bounds one answer; a large tree is large.
const maxResponseBytes = 64 << 20

// Connect makes a client connection to orchestrators; calls spread over all
// replicas that the target names: by a name with several addresses, or by a list
// of host:port with commas between them. Of more options the later count: without
// them the connection is not encrypted and calls carry no token.
func Connect(target string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + route.Policy + `":{}}]}`),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)),
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
	addresses := strings.Split(target, ",")
	if slices.Contains(addresses, "") {
		return nil, fmt.Errorf("connecting to orchestrators: an address in %q is empty", target)
	}
	for _, a := range addresses {
		// gRPC takes it for a part of a name. Resolvers of a caller's own are not known here, and have no host there.
		if scheme, rest, has := strings.Cut(a, "://"); has && resolver.Get(scheme) == nil && !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("connecting to orchestrators: there is none at %q: expected HOST:PORT", a)
		}
	}
	if len(addresses) > 1 {
		list := manual.NewBuilderWithScheme("list")
		var state resolver.State
		for _, a := range addresses {
			address := resolver.Address{Addr: a}
			if host, _, err := net.SplitHostPort(a); err == nil {
				address.ServerName = host // what its certificate has to name
			}
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{address}})
		}
		list.InitialState(state)
		options, target = append(options, grpc.WithResolvers(list)), "list:///orchestrators"
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", target, err)
	}
	return conn, nil
}

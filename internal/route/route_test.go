package route_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/coppice-run/coppice/internal/route"
)

// serve answers at an address of its own until stop, or the end of the test.
func serve(t *testing.T) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	return l.Addr().String(), server.Stop
}

// connect connects to addresses.
func connect(t *testing.T, addresses ...string) healthpb.HealthClient {
	t.Helper()
	list := manual.NewBuilderWithScheme("list")
	var state resolver.State
	for _, a := range addresses {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: a}}})
	}
	list.InitialState(state)
	return connectOver(t, list)
}

// connectOver connects to what a resolver finds.
func connectOver(t *testing.T, list resolver.Builder) healthpb.HealthClient {
	t.Helper()
	conn, err := grpc.NewClient("list:///", grpc.WithResolvers(list), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"`+route.Policy+`":{}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return healthpb.NewHealthClient(conn)
}

// call calls, again if its connection has just been lost, and gives the address that has
// answered.
func call(ctx context.Context, t *testing.T, client healthpb.HealthClient) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		var from peer.Peer
		_, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true), grpc.Peer(&from))
		switch {
		case err == nil:
			return from.Addr.String()
		case status.Code(err) != codes.Unavailable:
			t.Fatal(err)
		}
	}
}

// TestCallsSpread over all endpoints, with a way to none of them as without one.
func TestCallsSpread(t *testing.T) {
	t.Parallel()
	one, _ := serve(t)
	two, _ := serve(t)
	for name, begin := range map[string]func(t *testing.T) context.Context{
		"without a way": func(t *testing.T) context.Context { return t.Context() },
		"with a way": func(t *testing.T) context.Context {
			ctx, _ := route.Prefer(t.Context(), "")
			return ctx
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := connect(t, one, two)
			last, ctx := "", begin(t)
			for both := 0; both < 10; { // both are connected by and by
				next := call(ctx, t, client)
				if both > 0 && next == last {
					t.Fatalf("two calls in a row have gone to %s", next)
				}
				if last != "" && next != last {
					both++
				}
				last = next
			}
		})
	}
}

// TestACallGoesWhereAnotherHasGone as long as that can be reached, and elsewhere then.
func TestACallGoesWhereAnotherHasGone(t *testing.T) {
	t.Parallel()
	one, stop := serve(t)
	two, _ := serve(t)
	client := connect(t, one, two)
	for taken := ""; taken != one; {
		ctx, way := route.Prefer(t.Context(), "")
		if got := call(ctx, t, client); got != way.Endpoint() {
			t.Fatalf("the call has gone to %s, as it says to %s", got, way.Endpoint())
		}
		taken = way.Endpoint()
	}
	for range 10 {
		ctx, way := route.Prefer(t.Context(), one)
		if got := call(ctx, t, client); got != one || way.Endpoint() != one {
			t.Fatalf("the call has gone to %s, as it says to %s, and not to %s", got, way.Endpoint(), one)
		}
	}
	stop()
	ctx, way := route.Prefer(t.Context(), one)
	if got := call(ctx, t, client); got != two || way.Endpoint() != two {
		t.Errorf("the call has gone to %s, as it says to %s, though only %s is there", got, way.Endpoint(), two)
	}
}

// TestANameThatDoesNotResolve is why calls fail, until it does, and only as long as there is no
// endpoint. Of a name that there is not, gRPC's resolver says no more than that it found nothing.
func TestANameThatDoesNotResolve(t *testing.T) {
	t.Parallel()
	address, _ := serve(t)
	list := manual.NewBuilderWithScheme("list")
	list.InitialState(resolver.State{})
	client := connectOver(t, list)
	refused := func(why string) { // by and by: what a resolver reports is not waited for
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
			switch s := status.Convert(err); {
			case s.Code() == codes.Unavailable && s.Message() == why:
				return
			case s.Code() != codes.Unavailable:
				t.Fatalf("the call comes to %v, want %q", err, why)
			}
		}
	}
	refused("the name resolves to no address")
	list.CC().ReportError(errors.New("no name server answers"))
	refused("no name server answers")
	list.UpdateState(resolver.State{})
	refused("the name resolves to no address")
	list.UpdateState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{{Addr: address}}}}})
	if got := call(t.Context(), t, client); got != address {
		t.Errorf("the call has gone to %s", got)
	}
	list.CC().ReportError(errors.New("no name server answers"))
	if got := call(t.Context(), t, client); got != address {
		t.Errorf("the call has gone to %s", got)
	}
}

// TestAnEndpointIsDown once nobody can be connected to there, or it is none of those of the
// connection: the call goes elsewhere.
func TestAnEndpointIsDown(t *testing.T) {
	t.Parallel()
	one, stop := serve(t)
	two, _ := serve(t)
	client := connect(t, one, two)
	send := func(to string) *route.Preference {
		ctx, way := route.Prefer(t.Context(), to)
		call(ctx, t, client)
		return way
	}
	for send(one).Endpoint() != one { // it is being connected to
	}
	stop()
	for begun := time.Now(); !send(one).Unreachable(); { // by and by: it is tried once more
		if time.Since(begun) > time.Minute {
			t.Fatal("an endpoint that has ended is never down")
		}
	}
	for to, want := range map[string]bool{"": false, two: false, "127.0.0.1:1": true} {
		if way := send(to); way.Unreachable() != want || way.Endpoint() != two {
			t.Errorf("to %q: it is down: %t, want %t; the call has gone to %s", to, way.Unreachable(), want, way.Endpoint())
		}
	}
}

// TestAnEndpointThatIsBeingConnectedToIsNotDown, though the call goes elsewhere.
func TestAnEndpointThatIsBeingConnectedToIsNotDown(t *testing.T) {
	t.Parallel()
	one, _ := serve(t)
	other := silent(t)
	client := connect(t, one, other)
	ctx, way := route.Prefer(t.Context(), other)
	if got := call(ctx, t, client); got != one || way.Endpoint() != one || way.Unreachable() {
		t.Errorf("the call has gone to %s, as it says to %s; the endpoint is down: %t", got, way.Endpoint(), way.Unreachable())
	}
}

// silent takes connections, and says nothing.
func silent(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // the system takes them
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

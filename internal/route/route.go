// Package route says which endpoint of several a gRPC call goes to.
//
// A connection with its [Policy] spreads calls over all endpoints that can be reached, by
// turns. A call whose context has a [Way] is told where it has gone, and another one can be
// sent there too.
package route

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/connectivity"
)

// Policy is the name of the load balancing policy, for the service config of a connection.
const Policy = "coppice_route"

func init() { balancer.Register(builder{}) } //nolint:gochecknoinits // gRPC takes policies at no other time

// Preference is the way of a call: to an endpoint if that can be reached, otherwise to any.
type Preference struct {
	preferred   string
	used        atomic.Pointer[string]
	unreachable atomic.Bool
}

type key struct{}

// Prefer gives calls a way. No endpoint: any will do.
func Prefer(ctx context.Context, endpoint string) (context.Context, *Preference) {
	w := &Preference{preferred: endpoint}
	return context.WithValue(ctx, key{}, w), w
}

// Endpoint gives the endpoint that the call has gone to; empty if that is not known.
func (w *Preference) Endpoint() string {
	if took := w.used.Load(); took != nil {
		return *took
	}
	return ""
}

// Unreachable reports whether the endpoint that the call was to go to can't be reached: the last attempt
// to connect to it has failed, or it is none of the connection's any more. One whose connection is
// being made, be it anew, is not down, though the call has gone elsewhere meanwhile.
func (w *Preference) Unreachable() bool { return w.unreachable.Load() }

// builder makes round_robin's balancers, whose pickers know ways.
type builder struct{}

// Name is that of the policy.
func (builder) Name() string { return Policy }

// Build makes a balancer for a connection.
func (builder) Build(conn balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	w := &pickerConn{ClientConn: conn}
	return &errorBalancer{balancer.Get(roundrobin.Name).Build(w, options), w}
}

// errorBalancer is a balancer that remembers why its target can't be resolved.
type errorBalancer struct {
	balancer.Balancer
	conn *pickerConn
}

// errNoAddress says that a name was resolved, and stands for nothing: gRPC's resolver says so of
// one that there is not.
var errNoAddress = errors.New("the name resolves to no address")

// UpdateClientConnState takes in that there are other endpoints, or none.
func (r *errorBalancer) UpdateClientConnState(state balancer.ClientConnState) error {
	if len(state.ResolverState.Endpoints) == 0 {
		r.conn.unresolved.Store(&errNoAddress)
	}
	return r.Balancer.UpdateClientConnState(state)
}

// ResolverError takes in why there are no endpoints, or no newer ones.
func (r *errorBalancer) ResolverError(err error) {
	r.conn.unresolved.Store(&err)
	r.Balancer.ResolverError(err) // which tells its state
}

// pickerConn is a connection whose pickers know ways, and say why there is no endpoint.
type pickerConn struct {
	balancer.ClientConn
	next       atomic.Uint32
	unresolved atomic.Pointer[error] // what the resolver failed with last; nil: it never did
}

// UpdateState passes the state on.
func (w *pickerConn) UpdateState(state balancer.State) {
	endpoints := endpointsharding.ChildStatesFromPicker(state.Picker)
	if err := w.unresolved.Load(); err != nil && len(endpoints) == 0 {
		state.Picker = base.NewErrPicker(*err)
	}
	p := &picker{Picker: state.Picker, next: &w.next}
	for _, child := range endpoints {
		switch address := child.Endpoint.Addresses[0].Addr; child.State.ConnectivityState {
		case connectivity.Ready:
			p.ready = append(p.ready, endpoint{address, child.State.Picker})
		case connectivity.Idle, connectivity.Connecting: // after a failure it is neither until it is ready
			p.connecting = append(p.connecting, address)
		}
	}
	state.Picker = p
	w.ClientConn.UpdateState(state)
}

// endpoint is one that can be reached.
type endpoint struct {
	address string
	balancer.Picker
}

// picker sends calls without a way where round_robin does.
type picker struct {
	balancer.Picker
	ready      []endpoint
	connecting []string // addresses to which a connection is being made
	next       *atomic.Uint32
}

// Pick chooses the endpoint of a call.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	way, _ := info.Ctx.Value(key{}).(*Preference)
	if way == nil || len(p.ready) == 0 {
		return p.Picker.Pick(info)
	}
	chosen := &p.ready[p.next.Add(1)%uint32(len(p.ready))]
	for i := range p.ready {
		if p.ready[i].address == way.preferred {
			chosen = &p.ready[i]
		}
	}
	way.used.Store(&chosen.address)
	way.unreachable.Store(way.preferred != "" && chosen.address != way.preferred && !slices.Contains(p.connecting, way.preferred))
	return chosen.Pick(info)
}

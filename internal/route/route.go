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

// Way is the way of a call: to an endpoint if that can be reached, otherwise to any.
type Way struct {
	to   string
	took atomic.Pointer[string]
	down atomic.Bool
}

type key struct{}

// To gives calls a way. No endpoint: any will do.
func To(ctx context.Context, endpoint string) (context.Context, *Way) {
	w := &Way{to: endpoint}
	return context.WithValue(ctx, key{}, w), w
}

// Took gives the endpoint that the call has gone to; empty if that is not known.
func (w *Way) Took() string {
	if took := w.took.Load(); took != nil {
		return *took
	}
	return ""
}

// Down reports whether the endpoint that the call was to go to can't be reached: the last attempt
// to connect to it has failed, or it is none of the connection's any more. One whose connection is
// being made, be it anew, is not down, though the call has gone elsewhere meanwhile.
func (w *Way) Down() bool { return w.down.Load() }

// builder makes round_robin's balancers, whose pickers know ways.
type builder struct{}

// Name is that of the policy.
func (builder) Name() string { return Policy }

// Build makes a balancer for a connection.
func (builder) Build(conn balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	w := &watched{ClientConn: conn}
	return &resolved{balancer.Get(roundrobin.Name).Build(w, options), w}
}

// resolved is a balancer that remembers why its target can't be resolved.
type resolved struct {
	balancer.Balancer
	conn *watched
}

// errNowhere says that a name was resolved, and stands for nothing: gRPC's resolver says so of
// one that there is not.
var errNowhere = errors.New("the name resolves to no address")

// UpdateClientConnState takes in that there are other endpoints, or none.
func (r *resolved) UpdateClientConnState(state balancer.ClientConnState) error {
	if len(state.ResolverState.Endpoints) == 0 {
		r.conn.unresolved.Store(&errNowhere)
	}
	return r.Balancer.UpdateClientConnState(state)
}

// ResolverError takes in why there are no endpoints, or no newer ones.
func (r *resolved) ResolverError(err error) {
	r.conn.unresolved.Store(&err)
	r.Balancer.ResolverError(err) // which tells its state
}

// watched is a connection whose pickers know ways, and say why there is no endpoint.
type watched struct {
	balancer.ClientConn
	turn       atomic.Uint32
	unresolved atomic.Pointer[error] // what the resolver failed with last; nil: it never did
}

// UpdateState passes the state on.
func (w *watched) UpdateState(state balancer.State) {
	endpoints := endpointsharding.ChildStatesFromPicker(state.Picker)
	if err := w.unresolved.Load(); err != nil && len(endpoints) == 0 {
		state.Picker = base.NewErrPicker(*err)
	}
	p := &picker{Picker: state.Picker, turn: &w.turn}
	for _, child := range endpoints {
		switch address := child.Endpoint.Addresses[0].Addr; child.State.ConnectivityState {
		case connectivity.Ready:
			p.ready = append(p.ready, endpoint{address, child.State.Picker})
		case connectivity.Idle, connectivity.Connecting: // after a failure it is neither until it is ready
			p.coming = append(p.coming, address)
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
	ready  []endpoint
	coming []string // addresses to which a connection is being made
	turn   *atomic.Uint32
}

// Pick chooses the endpoint of a call.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	way, _ := info.Ctx.Value(key{}).(*Way)
	if way == nil || len(p.ready) == 0 {
		return p.Picker.Pick(info)
	}
	chosen := &p.ready[p.turn.Add(1)%uint32(len(p.ready))]
	for i := range p.ready {
		if p.ready[i].address == way.to {
			chosen = &p.ready[i]
		}
	}
	way.took.Store(&chosen.address)
	way.down.Store(way.to != "" && chosen.address != way.to && !slices.Contains(p.coming, way.to))
	return chosen.Pick(info)
}

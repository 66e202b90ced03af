// Package route chooses the endpoint of gRPC calls.
//
// A connection with [Policy] distributes calls over all reachable endpoints in turn. A call
// whose context has a [Preference] goes to the preferred endpoint if possible. The preference
// also reports which endpoint the call used, so that later calls can prefer it.
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

func init() { balancer.Register(builder{}) } //nolint:gochecknoinits // gRPC requires registration at initialisation

// Preference is the preferred endpoint of calls, and what became of it.
type Preference struct {
	preferred   string
	used        atomic.Pointer[string]
	unreachable atomic.Bool
}

type key struct{}

// Prefer returns a context whose calls go to an endpoint if it is reachable, otherwise to any.
// An empty endpoint means no preference.
func Prefer(ctx context.Context, endpoint string) (context.Context, *Preference) {
	w := &Preference{preferred: endpoint}
	return context.WithValue(ctx, key{}, w), w
}

// Endpoint returns the endpoint that the call used, or "" if that is unknown.
func (w *Preference) Endpoint() string {
	if took := w.used.Load(); took != nil {
		return *took
	}
	return ""
}

// Unreachable reports whether the preferred endpoint is down: the last attempt to connect to it
// failed, or the connection no longer has it. An endpoint that is being connected to, even
// again, is not down, although the call went elsewhere.
func (w *Preference) Unreachable() bool { return w.unreachable.Load() }

// builder builds round_robin balancers whose pickers apply preferences.
type builder struct{}

// Name is that of the policy.
func (builder) Name() string { return Policy }

// Build returns a balancer for a connection.
func (builder) Build(conn balancer.ClientConn, options balancer.BuildOptions) balancer.Balancer {
	w := &pickerConn{ClientConn: conn}
	return &errorBalancer{balancer.Get(roundrobin.Name).Build(w, options), w}
}

// errorBalancer remembers why the target could not be resolved.
type errorBalancer struct {
	balancer.Balancer
	conn *pickerConn
}

// errNoAddress reports that a name resolved to no address. gRPC's resolver reports this for
// names that do not exist.
var errNoAddress = errors.New("the name resolves to no address")

// UpdateClientConnState records that there are no endpoints, and passes the state on.
func (r *errorBalancer) UpdateClientConnState(state balancer.ClientConnState) error {
	if len(state.ResolverState.Endpoints) == 0 {
		r.conn.unresolved.Store(&errNoAddress)
	}
	return r.Balancer.UpdateClientConnState(state)
}

// ResolverError records the error, and passes it on.
func (r *errorBalancer) ResolverError(err error) {
	r.conn.unresolved.Store(&err)
	r.Balancer.ResolverError(err) // this also updates the state
}

// pickerConn installs pickers that apply preferences, and that report why there is no endpoint.
type pickerConn struct {
	balancer.ClientConn
	next       atomic.Uint32
	unresolved atomic.Pointer[error] // the last error of the resolver; nil: it never failed
}

// UpdateState wraps the picker and passes the state on.
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
		case connectivity.Idle, connectivity.Connecting: // after a failure, an endpoint has neither state until it is ready
			p.connecting = append(p.connecting, address)
		}
	}
	state.Picker = p
	w.ClientConn.UpdateState(state)
}

// endpoint is a reachable endpoint.
type endpoint struct {
	address string
	balancer.Picker
}

// picker picks preferred endpoints, and otherwise uses the picker of round_robin.
type picker struct {
	balancer.Picker
	ready      []endpoint
	connecting []string // addresses that are being connected to
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

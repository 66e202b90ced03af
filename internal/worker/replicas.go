package worker

import "sync"

// replicas is where replicas were last found.
type replicaEndpoints struct {
	mu         sync.Mutex
	byEndpoint map[string]string // replica by endpoint
}

func newReplicaEndpoints() *replicaEndpoints {
	return &replicaEndpoints{byEndpoint: map[string]string{}}
}

// found says that a replica is at an endpoint, as no other one is any more; empty: at one
// that is not known.
func (r *replicaEndpoints) record(replica, endpoint string) {
	if endpoint == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byEndpoint[endpoint] = replica
}

// lost says that nobody has answered at an endpoint, or can be reached there.
func (r *replicaEndpoints) forget(endpoint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byEndpoint, endpoint)
}

// endpoint gives where a replica was found; empty if it was not.
func (r *replicaEndpoints) endpoint(replica string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for endpoint, found := range r.byEndpoint {
		if found == replica {
			return endpoint
		}
	}
	return ""
}

package worker

import "sync"

// replicaEndpoints remembers at which endpoint each replica was last found.
type replicaEndpoints struct {
	mu         sync.Mutex
	byEndpoint map[string]string // replica by endpoint
}

func newReplicaEndpoints() *replicaEndpoints {
	return &replicaEndpoints{byEndpoint: map[string]string{}}
}

// record notes that a replica is at an endpoint. It replaces what was known of that endpoint. An
// empty endpoint is ignored.
func (r *replicaEndpoints) record(replica, endpoint string) {
	if endpoint == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byEndpoint[endpoint] = replica
}

// forget notes that an endpoint does not answer or cannot be reached.
func (r *replicaEndpoints) forget(endpoint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byEndpoint, endpoint)
}

// endpoint returns where a replica was found; empty if unknown.
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

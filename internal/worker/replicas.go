package worker

import "sync"

// replicas is where replicas were last found.
type replicas struct {
	mu sync.Mutex
	at map[string]string // replica by endpoint
}

func newReplicas() *replicas { return &replicas{at: map[string]string{}} }

// found says that a replica is at an endpoint, as no other one is any more; empty: at one
// that is not known.
func (r *replicas) found(replica, endpoint string) {
	if endpoint == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at[endpoint] = replica
}

// lost says that nobody has answered at an endpoint, or can be reached there.
func (r *replicas) lost(endpoint string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.at, endpoint)
}

// endpoint gives where a replica was found; empty if it was not.
func (r *replicas) endpoint(replica string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for endpoint, found := range r.at {
		if found == replica {
			return endpoint
		}
	}
	return ""
}

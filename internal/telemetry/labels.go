package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labels are a set of labels that was made ready once, since what is counted is
// counted often.
type labels struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func prepare(attrs ...attribute.KeyValue) labels {
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return labels{[]metric.AddOption{set}, []metric.RecordOption{set}}
}

// setsAtMost is how many sets of labels of a metric are remembered.
const setsAtMost = 1000

// sets are the sets of labels of a metric that were needed so far. Whoever asks sees to
// it that there are few keys; those beyond setsAtMost are made ready each time.
type sets[K comparable] struct {
	of func(K) []attribute.KeyValue

	mu    sync.RWMutex
	known map[K]labels
}

func newSets[K comparable](of func(K) []attribute.KeyValue) *sets[K] {
	return &sets[K]{of: of, known: map[K]labels{}}
}

func (s *sets[K]) get(key K) labels {
	s.mu.RLock()
	l, known := s.known[key]
	s.mu.RUnlock()
	if known {
		return l
	}
	l = prepare(s.of(key)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) < setsAtMost {
		s.known[key] = l
	}
	return l
}

// other is the label of what is not known by name.
const other = "_OTHER"

// Bounds of the names of models that are labels.
const (
	namesAtMost = 64
	nameBytes   = 100
)

// names are the names of models that may be labels. Anybody may ask for a model of any
// name, so only those count under which a provider has answered, and no more than
// namesAtMost of them: a provider may answer under every name that it is asked for.
type names struct {
	mu    sync.RWMutex
	known map[string]bool
}

func newNames() *names { return &names{known: map[string]bool{}} }

// learn notes that a provider has answered under a name, and gives its label.
func (n *names) learn(name string) string {
	if label := n.label(name); label != other {
		return label
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name != "" && len(name) <= nameBytes && len(n.known) < namesAtMost {
		n.known[name] = true
		return name
	}
	return other
}

// label is what a name is called in labels.
func (n *names) label(name string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.known[name] {
		return name
	}
	return other
}

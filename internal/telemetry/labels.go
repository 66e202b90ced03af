package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labelSet is a set of metric labels in the form that the instruments need. It is prepared
// once, because events are frequent.
type labelSet struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newLabelSet(attrs ...attribute.KeyValue) labelSet {
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return labelSet{[]metric.AddOption{set}, []metric.RecordOption{set}}
}

// maxLabelSets bounds the cached label sets of a metric.
const maxLabelSets = 1000

// labelCache caches the label sets of a metric. Callers ensure that there are few keys. Sets
// beyond maxLabelSets are prepared on each call.
type labelCache[K comparable] struct {
	of func(K) []attribute.KeyValue

	mu    sync.RWMutex
	known map[K]labelSet
}

func newLabelCache[K comparable](of func(K) []attribute.KeyValue) *labelCache[K] {
	return &labelCache[K]{of: of, known: map[K]labelSet{}}
}

func (s *labelCache[K]) get(key K) labelSet {
	s.mu.RLock()
	l, known := s.known[key]
	s.mu.RUnlock()
	if known {
		return l
	}
	l = newLabelSet(s.of(key)...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) < maxLabelSets {
		s.known[key] = l
	}
	return l
}

// other is the label for values that must not become labels.
const other = "_OTHER"

// Bounds of model names as labels.
const (
	maxModelNames = 64
	maxNameBytes  = 100
)

// modelNames are the model names that may become labels. Clients can request any name, so only
// names under which a provider has answered count, and at most maxModelNames of them, because a
// provider may answer under any requested name.
type modelNames struct {
	mu    sync.RWMutex
	known map[string]bool
}

func newModelNames() *modelNames { return &modelNames{known: map[string]bool{}} }

// learn records that a provider has answered under a name, and returns its label.
func (n *modelNames) learn(name string) string {
	if label := n.label(name); label != other {
		return label
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name != "" && len(name) <= maxNameBytes && len(n.known) < maxModelNames {
		n.known[name] = true
		return name
	}
	return other
}

// label returns the label of a name.
func (n *modelNames) label(name string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.known[name] {
		return name
	}
	return other
}

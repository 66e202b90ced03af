package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labelSet are a set of labels that was made ready once, since what is counted is
// counted often.
type labelSet struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func newLabelSet(attrs ...attribute.KeyValue) labelSet {
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return labelSet{[]metric.AddOption{set}, []metric.RecordOption{set}}
}

// maxLabelSets is how many sets of labels of a metric are remembered.
const maxLabelSets = 1000

// labelCache are the sets of labels of a metric that were needed so far. Whoever asks sees to
// it that there are few keys; those beyond setsAtMost are made ready each time.
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

// other is the label of what is not known by name.
const other = "_OTHER"

// Bounds of the names of models that are labels.
const (
	maxModelNames = 64
	maxNameBytes  = 100
)

// modelNames are the names of models that may be labels. Anybody may ask for a model of any
// name, so only those count under which a provider has answered, and no more than
// namesAtMost of them: a provider may answer under every name that it is asked for.
type modelNames struct {
	mu    sync.RWMutex
	known map[string]bool
}

func newModelNames() *modelNames { return &modelNames{known: map[string]bool{}} }

// learn notes that a provider has answered under a name, and gives its label.
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

// label is what a name is called in labels.
func (n *modelNames) label(name string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.known[name] {
		return name
	}
	return other
}

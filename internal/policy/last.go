package policy

import "sync/atomic"

// What siblings ask for one after another is the same.
var (
	lastOpened last[Authority, Layers]
	lastBelow  last[child, Authority]
)

// last remembers what was computed last. Keys and what is computed of them never change.
type last[K comparable, V any] struct {
	known atomic.Pointer[computed[K, V]]
}

type computed[K comparable, V any] struct {
	of    K
	value V
}

func (l *last[K, V]) of(key K, compute func(K) V) V {
	if known := l.known.Load(); known != nil && known.of == key {
		return known.value
	}
	value := compute(key)
	l.known.Store(&computed[K, V]{key, value})
	return value
}

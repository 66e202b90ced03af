package policy

import "sync/atomic"

// What siblings ask for one after another is the same.
var (
	openedCache lastResult[Authority, Layers]
	childCache  lastResult[childKey, Authority]
)

// last remembers what was computed last. Keys and what is computed of them never change.
type lastResult[K comparable, V any] struct {
	stored atomic.Pointer[computed[K, V]]
}

type computed[K comparable, V any] struct {
	key   K
	value V
}

func (l *lastResult[K, V]) get(key K, compute func(K) V) V {
	if known := l.stored.Load(); known != nil && known.key == key {
		return known.value
	}
	value := compute(key)
	l.stored.Store(&computed[K, V]{key, value})
	return value
}

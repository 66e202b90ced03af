package policy

import "sync/atomic"

// Siblings compute the same results one after another, so remembering the last one is enough.
var (
	openedCache lastResult[Authority, Layers]
	childCache  lastResult[childKey, Authority]
)

// lastResult caches the last result of a function. Keys and values are immutable.
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

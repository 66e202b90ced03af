package store

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"
)

// TestIDsAreInOrder makes ids of times that lie close together, and more than the bits after the
// milliseconds can tell apart.
func TestIDsAreInOrder(t *testing.T) {
	t.Parallel()
	ids, at := newIDSource(), time.UnixMicro(1_800_000_000_000_000)
	ids.made.Store(0x7fff_ff00) // its first bit changes
	var last [16]byte
	for range 2_000 {
		for range 5 {
			id := ids.next(at)
			if bytes.Compare(last[:], id[:]) >= 0 {
				t.Fatalf("%s, of %s, comes after %s", uuid.UUID(id), at, uuid.UUID(last))
			}
			if u := uuid.UUID(id); u.Version() != 7 || u.Variant() != uuid.RFC4122 {
				t.Fatalf("%s is a UUID of version %d and variant %s", u, u.Version(), u.Variant())
			}
			last = id
		}
		at = at.Add(time.Microsecond)
	}
}

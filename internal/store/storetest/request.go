package storetest

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// once: a repeat gets the first answer, also after a restart, and changes nothing.
func once(t *testing.T, d Dialect) {
	b := setup(t, d)
	id, opening := session(1), create(1)
	opening.Message = say("hello")
	cmds := []tree.Command{opening, tree.Send{Message: say("more")}, tree.SpawnTask{Child: child("work")}}
	keys := []store.Key{{Key: "a", Hash: [32]byte{1}}, {Key: "b", Hash: [32]byte{2}}, {Key: "c", Hash: [32]byte{3}}}
	var first []tree.Answer
	for i, cmd := range cmds {
		first = append(first, must[tree.Answer](t)(b.UpdateOnce(b.t.Context(), id, keys[i], cmd)))
	}
	before := b.dump(id)
	for range 2 {
		for i, cmd := range cmds {
			eq(t, "the repeat's answer", must[tree.Answer](t)(b.UpdateOnce(b.t.Context(), id, keys[i], cmd)), first[i])
			other := store.Key{Key: keys[i].Key, Hash: [32]byte{9}}
			if _, err := b.UpdateOnce(b.t.Context(), id, other, cmd); !errors.Is(err, tree.ErrKeyReused) {
				t.Errorf("the key's other use was answered %v", err)
			}
		}
		eq(t, "the session after the repeats", b.dump(id), before)
		b.restart()
	}
	// A key belongs to its session.
	must[tree.Answer](t)(b.UpdateOnce(b.t.Context(), session(2), keys[0], create(2)))
}

// onceInOneBatch: repeats in the same transaction get the first answer.
func onceInOneBatch(t *testing.T, d Dialect) {
	c := d.Fresh(t)
	synctest.Test(t, func(t *testing.T) {
		b := d.opened(t, c)
		const callers = 6
		answers, errs := make([]tree.Answer, callers), make([]error, callers)
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				key := store.Key{Key: "k", Hash: [32]byte{byte(i % 2)}}
				answers[i], errs[i] = b.UpdateOnce(b.t.Context(), session(1), key, create(1))
			})
		}
		synctest.Wait() // all have queued
		b.run()
		wg.Wait()
		b.stop()
		eq(t, "the number of commits", len(b.committed()), 1)
		winner := 0
		if errs[0] != nil {
			winner = 1
		}
		for i := range callers {
			if i%2 != winner {
				if !errors.Is(errs[i], tree.ErrKeyReused) {
					t.Errorf("the key's other use was answered %v", errs[i])
				}
				continue
			}
			eq(t, "the error of a repeat", errs[i], nil)
			eq(t, "the answer of a repeat", answers[i], answers[winner])
		}
	})
}

// onceAfterRefusal: a refusal is not stored; the same request may succeed later.
func onceAfterRefusal(t *testing.T, d Dialect) {
	b := setup(t, d)
	key := store.Key{Key: "k", Hash: [32]byte{1}}
	cmd := tree.Send{Message: say("hello")}
	if _, err := b.UpdateOnce(b.t.Context(), session(1), key, cmd); !errors.Is(err, tree.ErrNoSession) {
		t.Errorf("sending to no session was answered %v", err)
	}
	root := b.create(1, "")
	eq(t, "the answer", must[tree.Answer](t)(b.UpdateOnce(b.t.Context(), session(1), key, cmd)), tree.Answer(tree.Sent{Task: root, Run: 1}))
}

package store_test

import (
	"reflect"
	"testing"

	"github.com/coppice-run/coppice/internal/pgtest"
)

// TestConversationGoesOn checks that what a claim is given, read bit by bit, is the
// transcript as it is read whole.
func TestConversationGoesOn(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return t.TempDir() + "/a.db" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.Start(t).Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAttempt(t, database(t))
			for messages, children := 1, []int{1, 3, 2, 1}; len(children) > 0; children = children[1:] {
				a.same(t, messages)
				a.haveChildren(t, children[0]) // it looks, while the calls are open
				messages += 2
				a.same(t, messages)
				a.same(t, messages) // nothing new
			}
		})
	}
}

func (a *attempt) same(t *testing.T, messages int) {
	t.Helper()
	got, err := a.db.Conversation(t.Context(), "acme", a.session, a.from.Task)
	if err != nil {
		t.Fatal(err)
	}
	want, err := a.db.Transcript(t.Context(), a.session, a.from.Task, 0, 0)
	if err != nil || len(want) != messages {
		t.Fatalf("there are %d messages, want %d; %v", len(want), messages, err)
	}
	if !reflect.DeepEqual(got.Messages, want) {
		t.Errorf("the conversation is %+v, the transcript %+v", got.Messages, want)
	}
}

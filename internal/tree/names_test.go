package tree

import (
	"errors"
	"strings"
	"testing"
)

// TestNamesAreBounded: what is shown beside each event may not be a book.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	db := newDatabase()
	book := strings.Repeat("x", maxName+1)
	open := CreateSession{
		ID: SessionID{1}, Tenant: "acme", Agent: &Agent{Name: "a", Mode: ModeBoth}, Limits: DefaultLimits(),
		Message: []Block{Text{Text: "go"}},
	}
	refused := func(cmd Command) {
		t.Helper()
		if d, err := db.commit(cmd); err != nil || !errors.Is(d[0].Err, ErrTooLarge) {
			t.Errorf("%T: %v, %v", cmd, d, err)
		}
	}
	took := func(cmd Command) {
		t.Helper()
		if d, err := db.commit(cmd); err != nil || d[0].Err != nil {
			t.Fatalf("%T: %v, %v", cmd, d, err)
		}
	}
	long := open
	long.Model = book
	refused(long)
	long = open
	long.Title = book
	refused(long)
	unprintable := open
	unprintable.Title = "a\x00b"
	if d, err := db.commit(unprintable); err != nil || !errors.Is(d[0].Err, ErrBadInput) {
		t.Errorf("a title with a NUL character: %v, %v", d, err)
	}
	took(open)
	root := db.session.Root
	child := Child{Agent: open.Agent, AgentName: "a", Prompt: "look"}
	for _, change := range []func(*Child){
		func(c *Child) { c.Description = book },
		func(c *Child) { c.Model = book },
	} {
		c := child
		change(&c)
		refused(SpawnTask{Child: c})
	}
	claim := Claim{Task: root, Token: Token{Epoch: 1, Nonce: 7}, Worker: book}
	refused(claim)
	claim.Worker = "w"
	took(claim)
	took(Report{From: From{Task: root, Token: claim.Token, Attach: 1, Seq: 1}, Activity: strings.Repeat("é", maxActivity)})
	if got := db.tasks[root].Activity; len(got) != maxActivity {
		t.Errorf("the activity has %d bytes", len(got))
	}
}

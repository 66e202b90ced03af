package store

import (
	"slices"
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

// TestMayBegin: only a worker of this process begins early, and only what begins with a model call.
func TestMayBegin(t *testing.T) {
	t.Parallel()
	child := tree.Claimed{Task: tree.Task{Kind: tree.KindAgent}}
	command, interrupted := child, child
	command.Task.Kind, interrupted.Task.OpenCalls = tree.KindShell, 1
	here, there := &Offer{Local: true}, &Offer{}
	for name, test := range map[string]struct {
		offer   *Offer
		claimed *tree.Claimed
		may     bool
	}{
		"a child":                 {here, &child, true},
		"a child, far away":       {there, &child, false},
		"a command":               {here, &command, false},
		"a run with an open call": {here, &interrupted, false},
		"no run":                  {here, nil, false},
		"no offer":                {nil, nil, false},
	} {
		if may := test.offer.mayBegin(test.claimed); may != test.may {
			t.Errorf("%s may begin: %v", name, may)
		}
	}
}

// TestMarkEarly: an answer with a run is early, as are those before it in its group.
func TestMarkEarly(t *testing.T) {
	t.Parallel()
	child, here := &tree.Claimed{Task: tree.Task{Kind: tree.KindAgent}}, &Offer{Local: true}
	gives := commandResult{nextRun: child}
	first, last, other, alone := &Pending{}, &Pending{offer: here}, &Pending{offer: here}, &Pending{}
	first.group, alone.group = []*Pending{last}, []*Pending{last}
	queued := []*Pending{other, first, last, alone}
	markEarly(queued, []commandResult{{}, {}, gives, {}})
	var early []bool
	for _, p := range queued {
		early = append(early, p.early)
	}
	if want := []bool{false, true, true, false}; !slices.Equal(early, want) {
		t.Errorf("early are %v, want %v", early, want)
	}
}

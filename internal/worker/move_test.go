package worker

import (
	"testing"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestALineMoves to another endpoint, if it is told which, and then stays there.
func TestALineMoves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		to    string
		moves bool
	}{
		"elsewhere":      {"b", true},
		"where it is":    {"a", false},
		"nobody can say": {"", false},
	} {
		k := &link{endpoint: "a", left: make(chan struct{})}
		l := (&Worker{}).newLine()
		l.link = k
		_, changed := l.at()
		l.move(test.to)
		if done(k.left) != test.moves || done(changed) != test.moves || (l.link == nil) != test.moves {
			t.Errorf("%s: the stream was left: %t, want %t", name, done(k.left), test.moves)
		}
		if aim := l.aim(); test.moves && aim != test.to || !test.moves && aim != "" {
			t.Errorf("%s: the next stream is to go to %q", name, aim)
		}
		if aim := l.aim(); aim != "" {
			t.Errorf("%s: the one after it is to go to %q too", name, aim)
		}
	}
}

// TestALineLooksForAReplica that nobody has found yet, if its stream is old: by another one to
// any. So those are found that come later, though no slot is ever idle.
func TestALineLooksForAReplica(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replica string
		age     time.Duration
		leaves  bool
		to      string
	}{
		"found":                     {"two", 0, true, "b"},
		"not found":                 {"three", 2 * time.Minute, true, ""},
		"not found, a young stream": {"three", time.Minute, false, ""},
		"where it is":               {"one", 2 * time.Minute, false, ""},
		"nobody can say":            {"", 2 * time.Minute, false, ""},
	} {
		begun := time.Unix(1_800_000_000, 0)
		k := &link{left: make(chan struct{}), welcome: &pb.Welcome{ReplicaId: "one"}, begun: begun, lives: time.Minute}
		l := (&Worker{Config: Config{Now: func() time.Time { return begun.Add(test.age) }}, replicas: newReplicas()}).newLine()
		l.link = k
		l.replicas.found("two", "b")
		l.turnTo(test.replica)
		if done(k.left) != test.leaves || (l.link == nil) != test.leaves {
			t.Errorf("%s: the stream was left: %t, want %t", name, done(k.left), test.leaves)
		}
		if aim := l.aim(); aim != test.to {
			t.Errorf("%s: the next stream is to go to %q, want %q", name, aim, test.to)
		}
	}
}

func done(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestReplicasAreFound where they were seen last.
func TestReplicasAreFound(t *testing.T) {
	t.Parallel()
	r := newReplicas()
	r.found("one", "a")
	r.found("two", "b")
	r.found("three", "a") // one has ended
	r.found("four", "")
	r.found("five", "c")
	r.lost("c")
	for replica, want := range map[string]string{"one": "", "two": "b", "three": "a", "four": "", "five": "", "": ""} {
		if got := r.endpoint(replica); got != want {
			t.Errorf("%s was found at %q, want %q", replica, got, want)
		}
	}
}

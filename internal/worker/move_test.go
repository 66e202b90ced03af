package worker

import "testing"

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

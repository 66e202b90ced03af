package worker

import (
	"testing"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestALineTurns to the replica that a run is from, and then stays there. One that nobody has
// found yet it looks for if its stream is old: by another one to any. So those are found that
// come later, though no slot is ever idle.
func TestALineTurns(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replica string
		age     time.Duration
		leaves  bool
		to      string
	}{
		"elsewhere":                 {"two", 0, true, "b"},
		"where it is":               {"one", 2 * time.Minute, false, ""},
		"at two endpoints":          {"both", 2 * time.Minute, false, ""},
		"not found":                 {"three", 2 * time.Minute, true, ""},
		"not found, a young stream": {"three", time.Minute, false, ""},
		"nobody can say":            {"", 2 * time.Minute, false, ""},
	} {
		l, k := lineAt("one", test.age)
		if test.replica == "both" {
			k.welcome.ReplicaId = "both"
			l.replicas.record("both", "c")
		}
		_, changed := l.currentReplica()
		l.preferReplica(test.replica)
		if done(k.abandoned) != test.leaves || done(changed) != test.leaves || (l.stream == nil) != test.leaves {
			t.Errorf("%s: the stream was left: %t, want %t", name, done(k.abandoned), test.leaves)
		}
		if aim := l.takeNextEndpoint(); aim != test.to {
			t.Errorf("%s: the next stream is to go to %q, want %q", name, aim, test.to)
		}
		if aim := l.takeNextEndpoint(); aim != "" {
			t.Errorf("%s: the one after it is to go to %q too", name, aim)
		}
	}
}

// TestALineTurnsWithoutAStream: the one that is being opened is not taken if it goes elsewhere.
func TestALineTurnsWithoutAStream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replica, endpoint string
		taken             bool
	}{
		"elsewhere":      {"two", "a", false},
		"there":          {"two", "b", true},
		"nobody can say": {"three", "a", true},
	} {
		l, _ := lineAt("one", 0)
		l.detachLocked()
		l.preferReplica(test.replica)
		err := l.attach(&workStream{endpoint: test.endpoint, welcome: &pb.Welcome{}})
		if (err == nil) != test.taken || (l.stream != nil) != test.taken {
			t.Errorf("%s: taken: %v, want %t", name, err, test.taken)
		}
		if aim := l.takeNextEndpoint(); (aim != "") == test.taken {
			t.Errorf("%s: the next stream is to go to %q", name, aim)
		}
	}
}

// TestAnOldStreamStays from the hint for a run until it is over, and rests otherwise.
func TestAnOldStreamStays(t *testing.T) {
	t.Parallel()
	l, k := lineAt("one", 2*time.Minute)
	l.preferReplica("one")
	if l.detachIfIdle(k) {
		t.Error("it rests before the claim")
	}
	l.beginAttempt(&pb.Claim{}, nil, func() {})
	if l.detachIfIdle(k) {
		t.Error("it rests in an attempt")
	}
	l.loseAttempt()
	if !l.detachIfIdle(k) || l.stream != nil {
		t.Error("it does not rest once that is over")
	}
}

// lineAt is a line whose stream to a replica at endpoint a has begun so long ago; it is old after
// a minute. Replica two was found at endpoint b.
func lineAt(replica string, age time.Duration) (*conn, *workStream) {
	begun := time.Unix(1_800_000_000, 0)
	k := &workStream{endpoint: "a", abandoned: make(chan struct{}), welcome: &pb.Welcome{ReplicaId: replica}, openedAt: begun, maxAge: time.Minute}
	l := (&Worker{Config: Config{Now: func() time.Time { return begun.Add(age) }}, replicas: newReplicaEndpoints()}).newConn()
	l.stream = k
	l.replicas.record(replica, "a")
	l.replicas.record("two", "b")
	return l, k
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
	r := newReplicaEndpoints()
	r.record("one", "a")
	r.record("two", "b")
	r.record("three", "a") // one has ended
	r.record("four", "")
	r.record("five", "c")
	r.forget("c")
	for replica, want := range map[string]string{"one": "", "two": "b", "three": "a", "four": "", "five": "", "": ""} {
		if got := r.endpoint(replica); got != want {
			t.Errorf("%s was found at %q, want %q", replica, got, want)
		}
	}
}

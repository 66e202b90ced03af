package orchestrator

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestContact(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	c := contact{maxGap: 2 * time.Second}
	lasted := func(now, want float64) {
		t.Helper()
		if got := c.lasted(at(now)); got != at(want).Sub(began) {
			t.Errorf("after %g s contact has lasted %s, want %g s", now, got, want)
		}
	}
	lasted(0, 0)
	for s := range 6 {
		c.confirm(at(float64(s)))
	}
	lasted(5.5, 5.5)
	lasted(7, 7)
	lasted(7.5, 0) // no heartbeat for too long
	c.confirm(at(8))
	lasted(8, 0) // the database was away: contact begins again
	c.confirm(at(9))
	lasted(9, 1)
}

// TestGraceWithoutDatabase: the grace does not pass while the database is away, and begins again
// once it is back.
func TestGraceWithoutDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Service{stopping: make(chan struct{})}
		s.Now, s.Grace = time.Now, DefaultGrace
		s.contact.maxGap = s.replicaTimeout() / 2
		s.contact.confirm(s.Now())
		passed := make(chan bool, 1)
		go func() { passed <- s.passGrace(nil) }()
		time.Sleep(10 * s.Grace)
		if len(passed) > 0 {
			t.Error("the grace passed though no worker could come back")
		}
		back := s.Now()
		for len(passed) == 0 {
			s.contact.confirm(s.Now())
			time.Sleep(sweepInterval)
		}
		if took := s.Now().Sub(back); took < s.Grace || took > 2*s.Grace {
			t.Errorf("the grace passed %s after the database was back", took)
		}
	})
}

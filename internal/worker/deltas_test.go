package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestDeltas: what is written token by token is shown in few pieces, all of it, in
// order and soon; what is thought is not mixed with what is said.
func TestDeltas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent []*pb.TextDelta
		var at []time.Duration
		began := time.Now()
		d := &deltas{send: func(p *pb.TextDelta) {
			sent, at = append(sent, p), append(at, time.Since(began))
		}}
		var thought, said strings.Builder
		for i := range 1000 {
			d.add("token ", i < 500)
			if i < 500 {
				thought.WriteString("token ")
			} else {
				said.WriteString("token ")
			}
			time.Sleep(time.Millisecond)
		}
		d.add(strings.Repeat("x", deltaBytes), false)
		said.WriteString(strings.Repeat("x", deltaBytes))
		if last := at[len(at)-1]; last != time.Since(began) {
			t.Errorf("much at once was shown after %s, and it is %s", last, time.Since(began))
		}
		d.add("end", false)
		said.WriteString("end")
		d.flush()
		var thoughts, words strings.Builder
		for i, p := range sent {
			if i > 0 && at[i]-at[i-1] > deltaDelay+time.Millisecond {
				t.Errorf("%s passed between two pieces", at[i]-at[i-1])
			}
			if p.GetThinking() {
				thoughts.WriteString(p.GetText())
			} else {
				words.WriteString(p.GetText())
			}
		}
		if thoughts.String() != thought.String() || words.String() != said.String() {
			t.Error("some of it is missing, or in disorder")
		}
		if len(sent) > 25 {
			t.Errorf("it was shown in %d pieces", len(sent))
		}
		count := len(sent)
		d.flush()
		time.Sleep(time.Second)
		if len(sent) != count {
			t.Error("something was shown of nothing")
		}
	})
}

// TestARestartStandsAlone: it is shown at once, what was kept of the answer before it is not
// shown any more, and what comes next is not added to it.
func TestARestartStandsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		d := &deltas{send: func(p *pb.TextDelta) {
			sent = append(sent, fmt.Sprintf("%s %t", p.GetText(), p.GetRestart()))
		}}
		d.add("half", true)
		d.restart("[again]", true)
		if want := []string{"[again] true"}; !slices.Equal(sent, want) {
			t.Errorf("shown at once: %q, want %q", sent, want)
		}
		d.add("whole", true)
		d.flush()
		if want := []string{"[again] true", "whole false"}; !slices.Equal(sent, want) {
			t.Errorf("shown: %q, want %q", sent, want)
		}
	})
}

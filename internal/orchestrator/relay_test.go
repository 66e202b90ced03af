package orchestrator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/tree"
)

// relaying is a relay with a clock that the test sets.
type relaying struct {
	*relay
	t    *testing.T
	time time.Time
}

func newRelaying(t *testing.T) *relaying {
	r := &relaying{t: t, time: time.Unix(1000, 0)}
	r.relay = newRelay(func() time.Time { return r.time })
	return r
}

func (r *relaying) addInterest(replica string, id tree.SessionID) {
	r.setInterest(dispatch.Interest{Replica: replica, Session: id})
}

func (r *relaying) endInterest(replica string, id tree.SessionID) {
	r.setInterest(dispatch.Interest{Replica: replica, Session: id, Over: true})
}

// sent takes everything that waits, and returns the text for each replica.
func (r *relaying) sent() map[string]string {
	r.t.Helper()
	texts := map[string]string{}
	for {
		select {
		case <-r.changed:
		default:
			if len(r.waiting)+len(r.last)+r.size != 0 {
				r.t.Errorf("%d pieces wait for ever, %d tasks, %d bytes", len(r.waiting), len(r.last), r.size)
			}
			return texts
		}
		for _, p := range r.take() {
			size := 0
			for _, piece := range p.Pieces {
				texts[p.To] += piece.Text
				size += len(piece.Text) + pieceOverhead
			}
			if size > relayBatchBytes || size == 0 {
				r.t.Errorf("%d bytes are sent to %s at once", size, p.To)
			}
		}
	}
}

func pieceOf(session tree.SessionID, text string) dispatch.Piece {
	return dispatch.Piece{Session: session, Task: tree.TaskID(session), Run: 1, Text: text}
}

func aSession() tree.SessionID { return tree.SessionID(uuid.New()) }

func (r *relaying) want(what string, want map[string]string) {
	r.t.Helper()
	got := r.sent()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s: sent was %q, want %q", what, got, want)
	}
}

func TestTextIsRelayedToInterestedReplicas(t *testing.T) {
	t.Parallel()
	r := newRelaying(t)
	oak, elm := aSession(), aSession()
	both := func(mark string) {
		r.put(pieceOf(oak, "oak "+mark))
		r.put(pieceOf(elm, "elm "+mark))
	}
	both("1")
	r.want("no interest", nil)
	r.addInterest("a", oak)
	r.addInterest("a", oak)
	r.addInterest("b", oak)
	r.addInterest("b", elm)
	both("2")
	r.want("two are interested", map[string]string{"a": "oak 2", "b": "oak 2elm 2"})
	r.endInterest("b", oak)
	r.endInterest("b", oak)
	r.endInterest("c", elm)
	both("3")
	r.want("one interest ended", map[string]string{"a": "oak 3", "b": "elm 3"})
	r.time = r.time.Add(interestTTL - 1)
	r.addInterest("b", elm)
	r.time = r.time.Add(1)
	both("4")
	r.want("one interest was not renewed", map[string]string{"b": "elm 4"})
	r.put(pieceOf(elm, "too late"))
	r.endInterest("b", elm)
	r.want("no interest is left", nil)
	r.expire()
	if n := r.interestCount.Load(); n != 0 || len(r.relay.interests) != 0 {
		t.Errorf("%d interests of %d replicas are kept, want none", n, len(r.relay.interests))
	}
}

func TestPiecesGrowWhileTheyWait(t *testing.T) {
	t.Parallel()
	r := newRelaying(t)
	id := aSession()
	r.addInterest("a", id)
	thought := func(text string) dispatch.Piece {
		p := pieceOf(id, text)
		p.Thinking = true
		return p
	}
	again := thought("again")
	again.Restart = true
	child := dispatch.Piece{Session: id, Task: tree.TaskID(uuid.New()), Run: 1, Text: "child"}
	next := pieceOf(id, "next run")
	next.Run = 2
	long := pieceOf(id, strings.Repeat("x", dispatch.MaxPieceBytes))
	for _, p := range []dispatch.Piece{
		pieceOf(id, "a"), child, pieceOf(id, "b"), thought("c"), thought("d"), again, thought("e"), pieceOf(id, "e"), child, next, pieceOf(id, "f"), long, pieceOf(id, "g"),
	} {
		r.put(p)
	}
	children := child
	children.Text = "childchild"
	batches := r.take()
	want := []dispatch.Piece{pieceOf(id, "ab"), children, thought("cd"), again, thought("e"), pieceOf(id, "e"), next, pieceOf(id, "f"), long, pieceOf(id, "g")}
	if len(batches) != 1 || !slices.Equal(batches[0].Pieces, want) {
		t.Errorf("sent is %v, want %v", batches, want)
	}
	r.put(pieceOf(id, "h"))
	<-r.changed
	if batches := r.take(); len(batches) != 1 || !slices.Equal(batches[0].Pieces, []dispatch.Piece{pieceOf(id, "h")}) {
		t.Errorf("what was sent grows on: %v", batches)
	}
}

// TestWhatIsRelayedIsBounded floods a relay that sends nothing.
func TestWhatIsRelayedIsBounded(t *testing.T) {
	t.Parallel()
	r := newRelaying(t)
	for name, text := range map[string]string{"small": "x", "large": strings.Repeat("y", dispatch.MaxPieceBytes)} {
		id := aSession()
		r.addInterest("a", id)
		most := 0
		for range 2 * relayBufferBytes / len(text) {
			p := pieceOf(id, text)
			p.Task = tree.TaskID(uuid.New())
			r.put(p)
			if most = max(most, r.size); r.size > relayBufferBytes {
				t.Fatalf("%s: %d bytes wait", name, r.size)
			}
			if most+len(text)+pieceOverhead > relayBufferBytes {
				break
			}
		}
		waiting := len(r.waiting)
		r.put(pieceOf(id, text))
		if len(r.waiting) != waiting {
			t.Errorf("%s: a piece was taken beyond the bound", name)
		}
		if got := len(r.sent()["a"]); got != waiting*len(text) {
			t.Errorf("%s: %d bytes of %d pieces were sent", name, got, waiting)
		}
	}
}

func TestInterestsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRelaying(t)
	for i := range 2 * maxInterestedReplicas {
		r.addInterest(fmt.Sprint(i), aSession())
	}
	if n := len(r.relay.interests); n != maxInterestedReplicas || r.interestCount.Load() != maxInterestedReplicas {
		t.Errorf("%d interests of %d replicas are known, want %d", r.interestCount.Load(), n, maxInterestedReplicas)
	}
	id := aSession()
	for range maxInterests {
		id = aSession()
		r.addInterest("0", id)
	}
	r.addInterest("1", id)
	if n := r.interestCount.Load(); n != maxInterests {
		t.Errorf("%d interests are known, want %d", n, maxInterests)
	}
	r.time = r.time.Add(interestTTL)
	r.expire()
	r.addInterest("new", id)
	if n := r.interestCount.Load(); n != 1 {
		t.Errorf("%d interests are known when all but one have expired", n)
	}
}

func TestACommitFlushesText(t *testing.T) {
	t.Parallel()
	r := newRelaying(t)
	id := aSession()
	urgent := func(want int) {
		t.Helper()
		if r.flush(); len(r.flushNow) != want {
			t.Errorf("%d times urgent, want %d", len(r.flushNow), want)
		}
	}
	urgent(0)
	r.addInterest("a", id)
	urgent(0)
	r.put(pieceOf(id, "text"))
	urgent(1)
	if !r.pause(t.Context(), false) || len(r.flushNow) != 0 {
		t.Error("what is urgent rests")
	}
	r.sent()
	urgent(0)
}

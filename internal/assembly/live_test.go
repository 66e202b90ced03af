package assembly_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/tree"
)

// teller is a model that counts until it is let go on, then tells a story word by word,
// and ends when it is let go on again. So whoever has seen it count sees the whole story.
type teller struct {
	gates   chan chan struct{} // one for each answer
	counted atomic.Int64
}

const (
	countEvery = 20 * time.Millisecond
	storyMark  = "Once upon a time "
)

var story = storyMark + strings.Repeat("an oak 𝄞 grew <here> & \"there\",\n", 6) + "end"

func (s *teller) Generate(ctx context.Context, _ *model.Request, emit func(model.Delta)) (*model.Answer, error) {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	var text strings.Builder
	say := func(word string) {
		text.WriteString(word)
		emit(model.Delta{Text: word})
	}
	gate := <-s.gates
	for counting := true; counting; {
		select {
		case <-tick.C:
			say(strconv.FormatInt(s.counted.Add(1), 10) + " ")
		case <-gate:
			counting = false
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for _, word := range strings.SplitAfter(story, " ") {
		say(word)
	}
	select {
	case <-gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &model.Answer{
		Model: "teller", Stop: tree.StopEndTurn, Usage: tree.Usage{Input: 1, Output: 1}, Blocks: []tree.Block{tree.Text{Text: text.String()}},
	}, nil
}

// theatre is two orchestrators, of which the worker speaks to the first.
type theatre struct {
	*deployment
	teller *teller
	at     []*client // each orchestrator
}

func openTheatre(t *testing.T) *theatre {
	d := deploy(t, "steps: [{text: x}]")
	d.database = pgtest.Start(t).Database(t)
	d.addresses = append(d.addresses, proctest.FreeAddress(t))
	told := &teller{gates: make(chan chan struct{}, 1)}
	provider := httptest.NewServer(fakellm.New(fakellm.Config{Model: told}))
	t.Cleanup(provider.Close)
	d.asks = true
	d.environ = map[string][]string{"worker": {"ANTHROPIC_API_KEY=sk-none", "ANTHROPIC_BASE_URL=" + provider.URL}}
	p := &theatre{deployment: d, teller: told}
	for i, address := range d.addresses {
		d.startOrchestrator(i)
		conn, err := assembly.Connect(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c := newClient(t, conn)
		p.at = append(p.at, c)
	}
	first := *d
	first.addresses = d.addresses[:1]
	first.startWorker("worker")
	return p
}

// play opens a session whose model counts until it is told to go on.
func (p *theatre) play() (session string, goOn chan<- struct{}) {
	p.t.Helper()
	gate := make(chan struct{})
	p.teller.gates <- gate
	return p.at[0].create("tell me").GetId(), gate
}

// tell has the story told to those who watch, and the session end.
func (p *theatre) tell(goOn chan<- struct{}, all ...*spectator) {
	p.t.Helper()
	send(p.t, goOn)
	for _, v := range all {
		v.sawStory()
	}
	send(p.t, goOn)
	for _, v := range all {
		v.sawNoMore()
	}
}

func send(t *testing.T, goOn chan<- struct{}) {
	t.Helper()
	select {
	case goOn <- struct{}{}:
	case <-time.After(patience):
		t.Fatal("the model does not go on")
	}
}

// spectator watches a session at one orchestrator with the text of its model.
type spectator struct {
	t    *testing.T
	text chan string   // all that was shown so far, whenever that is more
	done chan struct{} // closed: the watch has ended
	seen string        // of the text, by the test
}

func (p *theatre) watch(at int, session string) *spectator {
	p.t.Helper()
	v := &spectator{t: p.t, text: make(chan string, 1), done: make(chan struct{})}
	p.t.Cleanup(func() { <-v.done }) // once the stream's context has ended
	c := p.at[at]
	stream, err := c.WatchSession(c.ctx(), &pb.WatchSessionRequest{SessionId: session, IncludeDeltas: true, UntilIdle: true})
	if err != nil {
		close(v.done)
		p.t.Fatal(err)
	}
	go v.look(stream)
	return v
}

// look takes what is shown at once: whoever is slow loses some.
func (v *spectator) look(stream grpc.ServerStreamingClient[pb.WatchSessionResponse]) {
	defer close(v.done)
	text := ""
	for {
		resp, err := stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				v.t.Errorf("a watch ended with %v", err)
			}
			return
		}
		if text += resp.GetDelta().GetText(); text == "" {
			continue
		}
		select {
		case <-v.text:
		default:
		}
		v.text <- text
	}
}

// until waits until what was shown so far is enough.
func (v *spectator) until(what string, enough func(text string) bool) {
	v.t.Helper()
	for {
		select {
		case v.seen = <-v.text:
			if enough(v.seen) {
				return
			}
		case <-time.After(patience):
			v.t.Fatalf("%s was never shown; shown was %q", what, v.seen)
		}
	}
}

// sees waits until the model is seen to count beyond a number.
func (v *spectator) sees(beyond int64) {
	v.t.Helper()
	v.until(fmt.Sprint("a number beyond ", beyond), func(text string) bool {
		words := strings.Fields(text)
		n, err := strconv.ParseInt(words[len(words)-1], 10, 64)
		return err == nil && n > beyond
	})
}

func (v *spectator) sawStory() {
	v.t.Helper()
	v.until("the end", func(text string) bool { return strings.HasSuffix(text, story[len(story)-3:]) })
}

// sawNoMore watches to the end: the story was shown once, as it was told, and before it
// numbers, without those that were counted too early or while there was no Redis.
func (v *spectator) sawNoMore() {
	v.t.Helper()
	<-v.done
	select {
	case v.seen = <-v.text:
	default:
	}
	numbers, told, _ := strings.Cut(v.seen, storyMark)
	if storyMark+told != story {
		v.t.Errorf("shown was %q, want %q", v.seen, story)
	}
	last := int64(0)
	for _, word := range strings.Fields(numbers) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n <= last {
			v.t.Errorf("after %d came %q, %v", last, word, err)
		}
		last = n
	}
}

// published gives, once called, what was published since by orchestrators: all that
// came on channels whose names have kind in them.
func published(t *testing.T, client *redis.Client) (on func(kind string) []*redis.Message) {
	t.Helper()
	sub := client.PSubscribe(t.Context(), "coppice:*")
	t.Cleanup(func() { sub.Close() })
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	const end = "coppice:end"
	return func(kind string) (found []*redis.Message) {
		t.Helper()
		if err := client.Publish(t.Context(), end, "").Err(); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := sub.ReceiveMessage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if m.Channel == end {
				return found
			}
			if strings.Contains(m.Channel, kind) {
				found = append(found, m)
			}
		}
	}
}

// TestTextIsShownAtEveryReplica watches at the replica that the worker speaks to, at
// another one, and at both.
func TestTextIsShownAtEveryReplica(t *testing.T) {
	t.Parallel()
	p := openTheatre(t)
	for _, watched := range [][]int{{1}, {0, 1}, {1, 1, 0}} {
		session, goOn := p.play()
		var all []*spectator
		for _, at := range watched {
			all = append(all, p.watch(at, session))
		}
		for _, v := range all {
			v.sees(0)
		}
		p.tell(goOn, all...)
	}
}

// TestTextIsSentWhereItIsWatched: text that nobody at another replica watches is not
// published at all.
func TestTextIsSentWhereItIsWatched(t *testing.T) {
	t.Parallel()
	p := openTheatre(t)
	published := published(t, p.redis.Client())
	for patient, nudged := p.at[0].ctx(), false; !nudged; { // once the first knows of the second
		if patient.Err() != nil {
			t.Fatal("no nudges were seen")
		}
		unwatched, goOn := p.play()
		p.tell(goOn)
		p.at[1].idle(unwatched)
		for _, m := range published("") {
			if nudged = true; !strings.HasSuffix(m.Channel, ":nudge") {
				t.Errorf("nobody watches text, and %q came on %s", m.Payload, m.Channel)
			}
		}
	}
	near, goOn := p.play()
	v := p.watch(0, near)
	v.sees(0)
	p.tell(goOn, v)
	if found := published(":text:"); len(found) != 0 {
		t.Errorf("text that nobody watches elsewhere was published %d times, first as %q", len(found), found[0].Payload)
	}
	counted := p.teller.counted.Load()
	far, goOn := p.play()
	v = p.watch(1, far)
	v.sees(0)
	p.tell(goOn, v)
	found := published(":text:")
	if len(found) == 0 {
		t.Error("text that is watched elsewhere was not published")
	}
	for _, m := range found {
		if !strings.Contains(m.Payload, far) {
			t.Errorf("%q is nothing of what is watched", m.Payload)
		}
	}
	p.nobodyHears()
	t.Logf("%d numbers and %d words went in %d messages", p.teller.counted.Load()-counted, len(strings.Fields(story)), len(found))
}

// nobodyHears waits until no replica hears text of others, as nobody watches any more.
func (p *theatre) nobodyHears() {
	p.t.Helper()
	client := p.redis.Client()
	ctx := p.at[0].ctx()
	for heard := 1; heard > 0; {
		channels, err := client.PubSubChannels(ctx, "coppice:*:text:*").Result()
		if err != nil {
			p.t.Fatalf("text is still heard: %v", err)
		}
		heard = len(channels)
	}
}

// TestTextComesBackAfterRedis kills Redis while text is shown at another replica, and
// starts it again.
func TestTextComesBackAfterRedis(t *testing.T) {
	t.Parallel()
	p := openTheatre(t)
	session, goOn := p.play()
	near, far := p.watch(0, session), p.watch(1, session)
	far.sees(0)
	for range 2 {
		p.redis.Kill()
		near.sees(p.teller.counted.Load())
		p.redis.Restart()
		far.sees(p.teller.counted.Load())
	}
	p.tell(goOn, near, far)
}

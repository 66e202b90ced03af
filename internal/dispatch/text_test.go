package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/redistest"
	"github.com/coppice-run/coppice/internal/tree"
)

// hearing runs ReceiveText until the test ends. It returns the pieces that are shown, and a value
// for each subscription.
func hearing(t *testing.T, bus *Bus, self string) (<-chan Piece, <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	pieces, begun, ended := make(chan Piece, 1000), make(chan struct{}, 1000), make(chan error, 1)
	go func() {
		ended <- bus.ReceiveText(ctx, self, func() { begun <- struct{}{} }, func(p Piece) { pieces <- p })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return pieces, begun
}

func next[T any](t *testing.T, ctx context.Context, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-ctx.Done():
		t.Fatalf("no %T came", got)
	}
	return got
}

// written returns pieces of one run.
func written(texts ...string) []Piece {
	p := Piece{Session: tree.SessionID(uuid.New()), Task: tree.TaskID(uuid.New()), Run: 3}
	var all []Piece
	for i, text := range texts {
		p.Text, p.Thinking = text, i%2 == 1
		all = append(all, p)
	}
	return all
}

func TestTextGoesToInterestedReplicas(t *testing.T) {
	onBoth(t, func(t *testing.T, client *redis.Client, bus *Bus) {
		ctx := within(t)
		log := newLogbook()
		bus.log = log.logger()
		first, begun := hearing(t, bus, "the first: one")
		next(t, ctx, begun)
		second, begun := hearing(t, bus, "the second")
		next(t, ctx, begun)
		one := written("a", "\n<&>\u2028\x00\x7f", "æ 𝄞", strings.Repeat("\x01", MaxPieceBytes))
		two := written("of another")
		for range 3 {
			if err := bus.SendText(ctx, "s", TextBatch{"the first: one", one}, TextBatch{"the second", append(two, one...)}, TextBatch{"nobody", one}); err != nil {
				t.Fatal(err)
			}
			for _, want := range one {
				if got := next(t, ctx, first); got != want {
					t.Errorf("the first was given %v, want %v", got, want)
				}
			}
			for _, want := range append(two, one...) {
				if got := next(t, ctx, second); got != want {
					t.Errorf("the second was given %v, want %v", got, want)
				}
			}
		}
		if err := bus.SendText(ctx, "s"); err != nil {
			t.Error(err)
		}
		for _, payload := range []string{"", "{", "[]", `{"from":"x"}`, strings.Repeat(" ", maxTextMessageBytes+1)} {
			if err := client.Publish(ctx, bus.keys.text("the second"), payload).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := bus.SendText(ctx, "s", TextBatch{"the second", two}); err != nil {
			t.Fatal(err)
		}
		if got := next(t, ctx, second); got != two[0] {
			t.Errorf("after nonsense came %v, want %v", got, two[0])
		}
		if n := log.count("ignoring text of another replica that is not valid"); n != 4 { // a message without a number is old
			t.Errorf("%d messages were logged as unreadable, want 4", n)
		}
	})
}

func TestTextMessagesAreNotTrusted(t *testing.T) {
	t.Parallel()
	good := written("good")[0]
	changed := func(change func(*Piece)) Piece {
		p := good
		change(&p)
		return p
	}
	whole := func(pieces ...Piece) string {
		data, err := encodeTextMessage(textMessage{From: "s", Number: 7, Pieces: pieces})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, c := range map[string]struct {
		payload string
		shown   int
		fails   bool
	}{
		"good":             {whole(good, good), 2, false},
		"empty":            {whole(), 0, false},
		"without session":  {whole(good, changed(func(p *Piece) { p.Session = tree.SessionID{} }), good), 0, true}, // no id is read
		"run 0":            {whole(good, changed(func(p *Piece) { p.Run = 0 }), good), 1, true},
		"a run too large":  {whole(changed(func(p *Piece) { p.Run = math.MaxInt32 + 1 })), 0, true},
		"without text":     {whole(changed(func(p *Piece) { p.Text = "" })), 0, true},
		"too much text":    {whole(changed(func(p *Piece) { p.Text = strings.Repeat("x", MaxPieceBytes+1) })), 0, true},
		"a number too low": {strings.Replace(whole(good), ":7", ":6", 1), 0, false},
		"from nobody":      {strings.Replace(whole(good), `"s"`, `""`, 1), 0, true},
		"from anybody":     {strings.Replace(whole(good), `"s"`, `"`+strings.Repeat("s", maxReplicaNameBytes+1)+`"`, 1), 0, true},
		"without ids":      {`{"from":"s","number":7,"pieces":[{"r":1,"x":"text"}]}`, 0, true},
		"too large":        {whole(good) + strings.Repeat(" ", maxTextMessageBytes), 0, true},
		"not a message":    {"text", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shown := 0
			last := lastNumbers{"s": 6}
			err := last.read(c.payload, func(Piece) { shown++ })
			if shown != c.shown || (err != nil) != c.fails {
				t.Errorf("%d pieces were shown, and then %v; want %d, and failing %t", shown, err, c.shown, c.fails)
			}
		})
	}
}

// A delayed message arrives after messages that were sent later.
func TestALateTextMessageIsNotShown(t *testing.T) {
	t.Parallel()
	last := lastNumbers{}
	var shown []string
	for _, p := range []textMessage{
		{"a", 1, written("a1")}, {"b", 9, written("b9")}, {"a", 3, written("a3")}, {"a", 2, written("a2")},
		{"b", 9, written("b9 again")}, {"a", 4, written("a4")},
	} {
		data, err := encodeTextMessage(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := last.read(string(data), func(p Piece) { shown = append(shown, p.Text) }); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"a1", "b9", "a3", "a4"}; !slices.Equal(shown, want) {
		t.Errorf("shown were %q, want %q", shown, want)
	}
	for i := range 2 * maxSenders {
		if err := last.read(fmt.Sprintf(`{"from":"%d","number":1}`, i), func(Piece) {}); err != nil {
			t.Error(err)
		}
	}
	if len(last) > maxSenders {
		t.Errorf("%d senders are remembered, want %d at most", len(last), maxSenders)
	}
}

// TestTextComesBack kills and freezes Redis. Receivers of text and listeners for interests
// reconnect.
func TestTextComesBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	bus, ctx := newBus(t, server.Client()), within(t)
	heard, begun := hearing(t, bus, "r")
	next(t, ctx, begun)
	interests := listenForInterests(t, bus, "s")
	for name, strike := range map[string]func(){
		"killed": func() {
			server.Kill()
			server.Restart()
		},
		"frozen": func() {
			server.Freeze()
			// It is frozen until that is noticed.
			if err := bus.SendText(ctx, "s", TextBatch{"r", written("into the ice")}); err == nil {
				t.Error("a frozen Redis took text")
			}
			server.Thaw()
		},
	} {
		strike()
		texts := written("again")
		until(t, ctx, "text after Redis was "+name, func() bool {
			if bus.SendText(ctx, "s", TextBatch{"r", texts}) != nil {
				return false
			}
			select {
			case p := <-heard:
				return p == texts[0]
			default:
				return false
			}
		})
		want := Interest{Replica: "r", Session: texts[0].Session}
		until(t, ctx, "an interest after Redis was "+name, func() bool {
			if bus.SendInterests(ctx, "r", want) != nil {
				return false
			}
			select {
			case w := <-interests:
				return w == want
			default:
				return false
			}
		})
	}
}

func FuzzTextMessage(f *testing.F) {
	data, err := encodeTextMessage(textMessage{"s", 1, written("one", "two")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(strings.Replace(string(data), "two", "\xff\\ud800", 1))
	f.Fuzz(func(t *testing.T, payload string) {
		var seen []Piece
		if err := (lastNumbers{}).read(payload, func(p Piece) { seen = append(seen, p) }); err == nil && !json.Valid([]byte(payload)) {
			t.Errorf("%q is no text message", payload)
		}
		for _, p := range seen {
			if p.check() != nil || !utf8.ValidString(p.Text) {
				t.Errorf("%q shows %v", payload, p)
			}
		}
	})
}

package assembly_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/wire"
)

// imports opens a session with lines, sent in pieces of a few bytes.
func (c *client) imports(opening *pb.ImportOpening, lines []byte) (*pb.ImportSessionResponse, error) {
	c.t.Helper()
	stream, err := c.ImportSession(c.ctx())
	if err != nil {
		c.t.Fatal(err)
	}
	pieces := []*pb.ImportSessionRequest{{Piece: &pb.ImportSessionRequest_Opening{Opening: opening}}}
	for len(lines) > 0 {
		n := min(len(lines), 100)
		pieces = append(pieces, &pb.ImportSessionRequest{Piece: &pb.ImportSessionRequest_Lines{Lines: lines[:n]}})
		lines = lines[n:]
	}
	for _, piece := range pieces {
		if err := stream.Send(piece); err != nil && !errors.Is(err, io.EOF) {
			c.t.Fatal(err)
		}
	}
	return stream.CloseAndRecv()
}

// export gives a conversation as lines.
func (c *client) export(session, task string) []byte {
	c.t.Helper()
	inherited, own := c.whole(session, task)
	messages, err := wire.MessagesFrom(append(inherited, own...))
	if err != nil {
		c.t.Fatal(err)
	}
	lines, err := transcript.Encode(messages, transcript.Origin{})
	if err != nil {
		c.t.Fatal(err)
	}
	return lines
}

// TestTranscriptsGoFromPlaceToPlace exports a conversation, with a fork's and a
// branch's, imports it and exports it again; what was imported goes on, also when
// everything is killed in the middle of it.
func TestTranscriptsGoFromPlaceToPlace(t *testing.T) {
	t.Parallel()
	const scenario = `
steps:
  - {when: {last: sum up the conversation}, text: in short}
  - {when: {last: on and on}, delay: 700ms, text: 'gone on, turn {{.Turn}}'}
  - {when: {depth: 0, turn: 1}, text: a look, calls: [{tool: ls, input: {path: .}}, {tool: task, input: {description: d, prompt: p, subagent_type: explore, fork_context: true}}]}
  - {text: 'done, turn {{.Turn}}', usage: {input: 170000}}
`
	onBoth(t, scenario, nil, func(t *testing.T, d *deployment) {
		c := d.client()
		session := c.create("go").GetId()
		c.idle(session)
		c.say(session, "", "more") // which sums up what came before
		c.idle(session)
		base := c.transcript(session, "")
		branch := c.branch(&pb.CreateBranchRequest{SessionId: session, MessageId: base[3].GetId(), Text: "or so"})
		fork := c.tasks(session)[1]
		c.idle(session)
		for _, task := range []string{"", branch.GetId(), fork.GetId()} {
			first := c.export(session, task)
			opening := &pb.ImportOpening{Title: "again", IdempotencyKey: "k" + task}
			imported, err := c.imports(opening, first)
			if err != nil || len(imported.GetNotes()) > 0 || int(imported.GetMessages()) != bytes.Count(first, []byte("\n")) {
				t.Fatalf("importing: %v, %v\n%s", imported, err, first)
			}
			again := imported.GetSession().GetId()
			if second := c.export(again, ""); !bytes.Equal(first, second) {
				t.Errorf("first\n%s\nthen\n%s", first, second)
			}
			if repeat, err := c.imports(opening, first); err != nil || repeat.GetSession().GetId() != again {
				t.Errorf("a repeat made %v, %v", repeat.GetSession().GetId(), err)
			}
			if _, err := c.imports(opening, append(first, '\n')); status.Code(err) != codes.AlreadyExists {
				t.Errorf("the key's other use: %v", err)
			}
			c.say(again, "", "on and on")
			if task == "" {
				c.events(again, func(e *pb.Event) bool { return e.GetDispatched() != nil })
				c = d.killAll()
			}
			c.idle(again)
			if got := c.wait(again, ""); !strings.HasPrefix(got.GetResult(), "gone on") {
				t.Errorf("the imported conversation ended %v", got)
			}
		}
		c.sound()
	})
}

// TestWrongImports asks for sessions that can't begin like that.
func TestWrongImports(t *testing.T) {
	t.Parallel()
	c := setup(t, `steps: [{text: done}]`, nil)
	c.idle(c.create("go").GetId())
	const good = `{"type":"user","uuid":"a","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"hello"}}`
	for _, test := range []struct {
		want    codes.Code
		opening *pb.ImportOpening
		lines   string
	}{
		{codes.InvalidArgument, &pb.ImportOpening{}, ""},
		{codes.InvalidArgument, &pb.ImportOpening{}, "not json"},
		{codes.InvalidArgument, &pb.ImportOpening{Agent: "explore"}, good},
		{codes.NotFound, &pb.ImportOpening{Agent: "nobody"}, good},
		{codes.ResourceExhausted, &pb.ImportOpening{Title: strings.Repeat("x", 2000)}, good},
		{codes.ResourceExhausted, &pb.ImportOpening{}, strings.Replace(good, "hello", strings.Repeat("x", 2<<20), 1)},
		{codes.OK, &pb.ImportOpening{}, good},
	} {
		if _, err := c.imports(test.opening, []byte(test.lines)); status.Code(err) != test.want {
			t.Errorf("%v with %.100s: %v, want %s", test.opening, test.lines, err, test.want)
		}
	}
	stream, err := c.ImportSession(c.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CloseAndRecv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("nothing at all: %v", err)
	}
	c.sound()
}

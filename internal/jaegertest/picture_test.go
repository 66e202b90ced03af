package jaegertest

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/otlptest"
)

// began is when the traces of these tests began.
var began = time.UnixMilli(1_000_000)

func spanned(id, parent, name string, from, to int) otlptest.Span {
	return otlptest.Span{
		ID: id, Parent: parent, Name: name, Texts: map[string]string{"coppice.task.description": "about " + id},
		Start: began.Add(time.Duration(from) * time.Millisecond), End: began.Add(time.Duration(to) * time.Millisecond),
	}
}

// small is a root with two children, of which the later one lost a worker. It comes in
// no order.
func small() []otlptest.Span {
	lost := spanned("lost", "second", "attempt lost", 300, 5000)
	lost.Message = "the worker was lost"
	return []otlptest.Span{
		lost,
		spanned("second", "call 2", "invoke_agent explore", 300, 6000),
		spanned("call 1", "root", "execute_tool task", 200, 900),
		spanned("call 2", "root", "execute_tool task", 300, 6000),
		spanned("ls", "root", "execute_tool ls", 150, 180),
		spanned("waits", "root", "queued", 0, 50),
		spanned("says", "root", "chat scripted", 50, 150),
		spanned("parks", "root", "parked", 200, 6000),
		spanned("first", "call 1", "invoke_agent explore", 200, 900),
		spanned("root", "", "invoke_agent general-purpose", 0, 7000),
	}
}

// figures reads a picture: how many elements there are of each kind and class, and all
// that is written.
func figures(t *testing.T, picture []byte) (counts map[string]int, text string) {
	t.Helper()
	counts = map[string]int{}
	var said strings.Builder
	for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return counts, said.String()
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
		switch token := token.(type) {
		case xml.StartElement:
			kind := token.Name.Local
			for _, a := range token.Attr {
				if a.Name.Local == "class" {
					kind += "." + a.Value
				}
			}
			counts[kind]++
		case xml.CharData:
			said.Write(token)
			said.WriteByte('\n')
		}
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	counts, text := figures(t, Draw(small()))
	// The legend has one of each.
	for kind, want := range map[string]int{
		"text.name": 3, "path.branch": 2, "path.life": 3, "text.alarm": 1,
		"rect.queued": 1 + 1, "rect.parked": 1 + 1, "rect.chat": 1 + 1, "rect.tool": 1 + 1, "rect.lost": 1 + 1,
	} {
		if counts[kind] != want {
			t.Errorf("there are %d of %s, want %d", counts[kind], kind, want)
		}
	}
	after := 0
	for _, want := range []string{"3 runs, 10 spans, 1 worker", "about root", "about first", "about second", "the worker was lost"} {
		at := strings.Index(text, want)
		if at < after {
			t.Errorf("%q is not after what comes before it, in %s", want, text)
		}
		after = at
	}
}

func TestDrawWhatIsWrong(t *testing.T) {
	t.Parallel()
	hostile := spanned("root", "", "invoke_agent <b>&\x00\xff\x1b", 5, 5)
	hostile.Texts["coppice.task.description"] = strings.Repeat("]]>\u202e", 100)
	tests := map[string]struct {
		spans []otlptest.Span
		rows  int
	}{
		"nothing":             {nil, 0},
		"no run":              {small()[4:8], 0},
		"names of all sorts":  {[]otlptest.Span{hostile}, 1},
		"one span twice":      {append(small(), small()...), 3},
		"a run below itself":  {[]otlptest.Span{spanned("a", "b", "invoke_agent x", 0, 1), spanned("b", "a", "invoke_agent y", 0, 1)}, 0},
		"a run without above": {small()[:2], 1},
		"an end before began": {[]otlptest.Span{spanned("a", "", "command", 9, 1)}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if counts, _ := figures(t, Draw(test.spans)); counts["text.name"] != test.rows {
				t.Errorf("there are %d rows, want %d", counts["text.name"], test.rows)
			}
		})
	}
}

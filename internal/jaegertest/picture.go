package jaegertest

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coppice-run/coppice/internal/otlptest"
)

// The measures of a picture, in pixels.
const (
	width     = 1040
	margin    = 18
	timeLeft  = 300 // where the first moment is
	timeRight = width - 76
	top       = 74 // where the first row begins
	rowHeight = 26
	barHeight = 14
	indent    = 18
	legend    = 46 // what the legend takes below the rows
	letter    = 6.7
)

//go:embed picture.css
var style string

// run is a run as a picture shows it: a row.
type run struct {
	span  otlptest.Span
	parts []otlptest.Span // what it is made of: waits, calls, attempts that were lost
	depth int
	above int // the row of the run that asked for it; -1: nobody did
}

// Draw draws a trace: a row for each run below the one that asked for it, and in it,
// over time, what the run was doing.
func Draw(spans []otlptest.Span) []byte {
	rows := arrange(spans)
	c := &canvas{}
	height := top + len(rows)*rowHeight + legend
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(c, "<title>%s</title>\n<style>\n%s</style>\n", "A tree of agents as one trace", style)
	fmt.Fprint(c, `<defs><pattern id="wait" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="ground" width="6" height="6"/><path class="hatch" d="M0 0V6"/></pattern></defs>`+"\n")
	fmt.Fprintf(c, `<rect class="card" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>`+"\n", width-1, height-1)
	if len(rows) == 0 {
		c.text("head", margin, 30, "start", "No run has ended.")
		return c.close()
	}
	c.first, c.last = bounds(rows)
	c.text("head", margin, 30, "start", fmt.Sprintf("One turn of a session: %s, %s, %s, %s of work in %s",
		count(len(rows), "run"), count(len(spans), "span"), count(workers(spans), "worker"), seconds(worked(rows)), seconds(c.last.Sub(c.first))))
	c.axis(len(rows))
	for i := range rows {
		c.row(rows, i)
	}
	c.legend(top + len(rows)*rowHeight + legend - 18)
	return c.close()
}

// arrange makes rows of runs: each is followed by those that it has asked for, in the
// order in which they began.
func arrange(spans []otlptest.Span) []run {
	byID, below := map[string]otlptest.Span{}, map[string][]otlptest.Span{}
	for _, s := range spans {
		byID[s.ID] = s
		below[s.Parent] = append(below[s.Parent], s)
	}
	var rows []run
	var add func(s otlptest.Span, depth, above int)
	add = func(s otlptest.Span, depth, above int) {
		at := len(rows)
		if isRun(s) {
			rows = append(rows, run{span: s, depth: depth, above: above})
			depth, above = depth+1, at
		} else if above >= 0 && !holdsRun(below[s.ID]) {
			rows[above].parts = append(rows[above].parts, s)
		}
		delete(byID, s.ID) // whatever is wrong with a trace, each span is drawn once
		slices.SortStableFunc(below[s.ID], func(a, b otlptest.Span) int { return a.Start.Compare(b.Start) })
		for _, child := range below[s.ID] {
			if _, ok := byID[child.ID]; ok {
				add(child, depth, above)
			}
		}
	}
	for _, s := range spans {
		if _, ok := byID[s.Parent]; !ok && isRun(s) && byID[s.ID].ID != "" {
			add(s, 0, -1)
		}
	}
	return rows
}

func isRun(s otlptest.Span) bool {
	return strings.HasPrefix(s.Name, "invoke_agent ") || s.Name == "command"
}

func holdsRun(below []otlptest.Span) bool { return slices.ContainsFunc(below, isRun) }

func bounds(rows []run) (first, last time.Time) {
	first, last = rows[0].span.Start, rows[0].span.End
	for _, r := range rows {
		for _, s := range append(r.parts, r.span) {
			if s.Start.Before(first) {
				first = s.Start
			}
			if s.End.After(last) {
				last = s.End
			}
		}
	}
	return first, last
}

// workers counts those that a trace names.
func workers(spans []otlptest.Span) int {
	seen := map[string]bool{}
	for _, s := range spans {
		if strings.HasPrefix(s.Name, "chat") || strings.HasPrefix(s.Name, "execute_tool") && s.Texts["gen_ai.tool.call.id"] != "" {
			seen[s.Texts["service.instance.id"]] = true
		}
	}
	return len(seen)
}

// worked is how long models and tools took, one after the other.
func worked(rows []run) (d time.Duration) {
	for _, r := range rows {
		for _, s := range r.parts {
			if class := classOf(s); class == "chat" || class == "tool" {
				d += s.End.Sub(s.Start)
			}
		}
	}
	return d
}

// classOf is how a part of a run is drawn.
func classOf(s otlptest.Span) string {
	switch {
	case s.Name == "queued" || s.Name == "parked":
		return s.Name
	case s.Name == "attempt lost":
		return "lost"
	case strings.HasPrefix(s.Name, "chat"):
		return "chat"
	default:
		return "tool"
	}
}

// canvas is a picture in the making.
type canvas struct {
	bytes.Buffer
	first, last time.Time
}

func (c *canvas) close() []byte {
	fmt.Fprint(c, "</svg>\n")
	return c.Bytes()
}

// x is where a moment is.
func (c *canvas) x(at time.Time) float64 {
	whole := max(c.last.Sub(c.first), time.Microsecond)
	return timeLeft + float64(timeRight-timeLeft)*float64(at.Sub(c.first))/float64(whole)
}

func (c *canvas) text(class string, x, y float64, anchor, text string) {
	fmt.Fprintf(c, `<text class="%s" x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", class, x, y, anchor, shown(text))
}

// steps are what may be between two lines.
var steps = []time.Duration{
	10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, time.Hour, 24 * time.Hour,
}

// axis draws lines at round times.
func (c *canvas) axis(rows int) {
	whole := c.last.Sub(c.first)
	step := steps[len(steps)-1]
	if i := slices.IndexFunc(steps, func(step time.Duration) bool { return whole/step < 9 }); i >= 0 {
		step = steps[i]
	}
	for at := time.Duration(0); at <= whole; at += step {
		x := c.x(c.first.Add(at))
		fmt.Fprintf(c, `<path class="grid" d="M%.1f %dV%d"/>`+"\n", x, top-8, top+rows*rowHeight)
		c.text("small", x, top-14, "middle", at.String())
	}
}

// row draws a run.
func (c *canvas) row(rows []run, i int) {
	r := rows[i]
	middle := float64(top + i*rowHeight + rowHeight/2)
	x := float64(margin + r.depth*indent)
	if r.above >= 0 {
		fmt.Fprintf(c, `<path class="branch" d="M%.1f %dV%.1fH%.1f"/>`+"\n", x-indent+5, top+r.above*rowHeight+rowHeight/2+8, middle, x-3)
	}
	agent := strings.TrimPrefix(r.span.Name, "invoke_agent ")
	about := r.span.Texts["coppice.task.description"]
	room := int((timeLeft - 14 - x) / letter)
	agent = shorten(agent, room)
	about = shorten(about, room-len([]rune(agent))-1)
	fmt.Fprintf(c, `<text class="name" x="%.1f" y="%.1f">%s <tspan class="about">%s</tspan></text>`+"\n", x, middle+4, shown(agent), shown(about))

	fmt.Fprintf(c, `<path class="life" d="M%.1f %.1fH%.1f"/>`+"\n", c.x(r.span.Start), middle, c.x(r.span.End))
	slices.SortStableFunc(r.parts, func(a, b otlptest.Span) int { return cmp.Compare(depthOf(a), depthOf(b)) })
	for _, s := range r.parts {
		c.part(s, middle)
	}
	took := c.x(r.span.End) + 6
	c.text("small", took, middle+4, "start", seconds(r.span.End.Sub(r.span.Start)))
}

// depthOf is how far behind others a part is: an attempt that was lost is behind what
// came of it.
func depthOf(s otlptest.Span) int {
	if classOf(s) == "lost" {
		return 0
	}
	return 1
}

// part draws what a run was doing.
func (c *canvas) part(s otlptest.Span, middle float64) {
	class, from, to := classOf(s), c.x(s.Start), c.x(s.End)
	height := float64(barHeight)
	switch class {
	case "parked":
		height = 4
	case "lost":
		height += 6
	}
	fmt.Fprintf(c, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2"><title>%s, %s</title></rect>`+"\n",
		class, from, middle-height/2, max(to-from, 1.5), height, shown(s.Name), seconds(s.End.Sub(s.Start)))
	if class == "lost" && to-from > 2*letter*float64(len(s.Message)) {
		c.text("alarm", to-6, middle+4, "end", s.Message)
	}
}

func (c *canvas) legend(y int) {
	x := float64(margin)
	for _, l := range []struct{ class, text string }{
		{"queued", "waits for a worker"}, {"parked", "parked: waits for others, without a worker"},
		{"chat", "call of the model"}, {"tool", "call of a tool"}, {"lost", "attempt lost"},
	} {
		height := 12
		if l.class == "parked" {
			height = 4
		}
		fmt.Fprintf(c, `<rect class="%s" x="%.1f" y="%d" width="22" height="%d" rx="2"/>`+"\n", l.class, x, y-4-height/2, height)
		c.text("small", x+29, float64(y), "start", l.text)
		x += 29 + letter*float64(len(l.text)) + 20
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// shorten cuts a text to a number of letters.
func shorten(text string, letters int) string {
	r := []rune(text)
	if len(r) <= letters {
		return text
	}
	return string(r[:max(letters-1, 0)]) + "…"
}

// shown is a text as XML may have it.
func shown(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return html.EscapeString(text)
}

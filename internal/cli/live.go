package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// redraw is how often the picture is drawn anew.
const redrawInterval = 100 * time.Millisecond

// live draws a session on a terminal while it grows. It is the model of a
// terminal program: only the program's goroutine touches it.
type live struct {
	forest       *forest
	look         look
	now          func() time.Time
	interrupt    func()
	why          func() string // nobody takes what is queued
	decisionHelp decisionHelp
	questions    questions

	width, height int
	frame         int
	lost          bool // the connection
	stopping      bool
	stall         stallDetector
	stallReason   string // why it stands still
	picture       string
	pictureHeight int // lines of the picture
}

// What the program is told.
type (
	stepMsg  struct{ step *pb.WatchSessionResponse }
	lostMsg  struct{ err error }
	foundMsg struct{} // the connection that was lost

	unmovedMsg struct{ why string }

	overMsg struct{}
	tickMsg struct{}
)

// Init starts the clock of the picture.
func (l *live) Init() tea.Cmd { return tick() }

func tick() tea.Cmd {
	return tea.Tick(redrawInterval, func(time.Time) tea.Msg { return tickMsg{} })
}

// Update takes in what happened. The picture changes with the clock, so that a
// burst of events costs one drawing.
func (l *live) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case stepMsg:
		l.forest.step(m.step)
		l.questions.settle(m.step)
	case lostMsg:
		l.lost = true
	case foundMsg:
		l.lost = false
	case tea.WindowSizeMsg:
		resized := l.width > 0
		l.width, l.height, l.pictureHeight = m.Width, m.Height, 0
		l.paint()
		if resized {
			// The terminal has wrapped or moved the old picture, nobody knows
			// where to: begin again at the top.
			return l, tea.Sequence(tea.Raw(ansi.EraseEntireScreen+ansi.CursorHomePosition), tea.ClearScreen)
		}
	case tickMsg:
		l.frame++
		l.paint()
		return l, tea.Batch(tick(), l.checkStalled())
	case unmovedMsg:
		l.stallReason = m.why
	case answeredMsg:
		l.questions.answered(m, l.forest)
	case overMsg:
		return l, tea.Quit
	case tea.KeyPressMsg:
		switch m.String() {
		case "ctrl+c":
			l.stopping = true
			l.interrupt()
		case "ctrl+z":
			return l, tea.Suspend
		default:
			return l, l.questions.answer(m.String(), l.now())
		}
	}
	return l, nil
}

// mind asks for the reason if the session has come to stand still.
func (l *live) checkStalled() tea.Cmd {
	if !l.stall.check(l.forest, l.now()) {
		return nil
	}
	l.stallReason = ""
	why := l.why
	return func() tea.Msg { return unmovedMsg{why()} }
}

// View shows the picture.
func (l *live) View() tea.View { return tea.NewView(l.picture) }

// paint draws the picture: the tree, and a line below it that says how the whole
// stands. It leaves a line free for the cursor. The picture never gets shorter,
// since the terminal's library loses its place then.
func (l *live) paint() {
	if l.forest.root == nil || l.width <= 0 || l.height <= 0 {
		return
	}
	now := l.now()
	question := l.questions.lines(l.forest, now, l.width, l.height-3)
	lines := l.forest.draw(canvas{
		look: l.look, width: l.width, height: max(1, l.height-2-len(question)), now: now, frame: l.frame, decisionHelp: l.decisionHelp,
	})
	if l.height > 2 {
		lines = append(lines, l.look.dim.Render(ansi.Truncate(l.footer(now), l.width, l.look.more)))
	}
	lines = append(lines, question...)
	for len(lines) < l.pictureHeight {
		lines = append(lines, "")
	}
	l.pictureHeight = len(lines)
	l.picture = strings.Join(lines, "\n")
}

// foot is the line below the tree: first what needs somebody, then how the whole stands.
func (l *live) footer(now time.Time) string {
	var parts []string
	if l.stopping {
		parts = append(parts, "stopping")
	}
	if l.questions.failed != "" {
		parts = append(parts, l.questions.failed)
	}
	if l.lost {
		parts = append(parts, "connection lost, trying again")
	}
	if l.stall.reported && l.stallReason != "" {
		parts = append(parts, l.stallReason)
	}
	if n := l.forest.openQuestions(); n > 0 {
		open := plural(n, "open approval")
		if l.decisionHelp.listCommand != "" {
			open += ": " + safeLine(l.decisionHelp.listCommand)
		}
		parts = append(parts, open)
	}
	return strings.Join(append(parts, l.forest.summary(now, l.look.dot)), l.look.dot)
}

// wipe takes the picture away, from the line that the program leaves the cursor
// on: the last one of the picture.
func (l *live) wipe(out io.Writer) error {
	if l.pictureHeight == 0 {
		return nil
	}
	up := ""
	if l.pictureHeight > 1 {
		up = ansi.CursorUp(l.pictureHeight - 1)
	}
	_, err := io.WriteString(out, "\r"+up+ansi.EraseScreenBelow)
	return err
}

// draw shows a watched session on a terminal until it is over, and gives what it
// has seen. Ctrl-C calls interrupt. Where a person is asked, it is not over while something is.
func (l *live) draw(ctx context.Context, w *watcher, in io.Reader, out io.Writer) (*pb.Idle, error) {
	program := tea.NewProgram(l, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type ending struct {
		idle *pb.Idle
		err  error
	}
	ended, asks := make(chan ending, 1), l.questions.decide != nil
	w.onLost = func(err error) { program.Send(lostMsg{err}) }
	w.onConnected = func() { program.Send(foundMsg{}) }
	go func() {
		tell := func(step *pb.WatchSessionResponse) error {
			program.Send(stepMsg{step})
			return nil
		}
		each := w.each
		if asks {
			each = w.eachPastBlocks
		}
		idle, err := each(ctx, tell)
		ended <- ending{idle, err}
		program.Send(overMsg{})
	}()
	_, err := program.Run()
	stop()
	end := <-ended
	if err == nil {
		err = l.wipe(out)
	}
	if err != nil {
		return nil, fmt.Errorf("drawing the tree: %w", err)
	}
	return end.idle, end.err
}

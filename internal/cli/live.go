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

// redrawInterval is how often the picture is drawn.
const redrawInterval = 100 * time.Millisecond

// liveView draws a growing session on a terminal. It is the model of a terminal program: only the
// program's goroutine uses it.
type liveView struct {
	forest       *forest
	theme        theme
	now          func() time.Time
	interrupt    func()
	why          func() string // why no worker takes queued runs
	decisionHelp decisionHelp
	questions    questions

	width, height int
	frame         int
	lost          bool // the connection is lost
	stopping      bool
	stall         stallDetector
	stallReason   string // why the session is stalled
	picture       string
	pictureHeight int // in lines
}

// Messages to the program.
type (
	stepMsg  struct{ step *pb.WatchSessionResponse }
	lostMsg  struct{ err error }
	foundMsg struct{} // the connection is back

	unmovedMsg struct{ why string }

	overMsg struct{}
	tickMsg struct{}
)

// Init starts the clock of the picture.
func (l *liveView) Init() tea.Cmd { return tick() }

func tick() tea.Cmd {
	return tea.Tick(redrawInterval, func(time.Time) tea.Msg { return tickMsg{} })
}

// Update processes a message. The picture changes only with the clock, so that a burst of events
// is drawn once.
func (l *liveView) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case stepMsg:
		l.forest.applyStep(m.step)
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
			// The terminal has wrapped or moved the old picture in an unknown way: start again at
			// the top.
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

// checkStalled asks for the reason if the session has stalled.
func (l *liveView) checkStalled() tea.Cmd {
	if !l.stall.check(l.forest, l.now()) {
		return nil
	}
	l.stallReason = ""
	why := l.why
	return func() tea.Msg { return unmovedMsg{why()} }
}

// View returns the picture.
func (l *liveView) View() tea.View { return tea.NewView(l.picture) }

// paint draws the picture: the tree, and a summary line below it. It leaves a line free for the
// cursor. The picture never gets lower, because the terminal library would lose its position.
func (l *liveView) paint() {
	if l.forest.root == nil || l.width <= 0 || l.height <= 0 {
		return
	}
	now := l.now()
	question := l.questions.lines(l.forest, now, l.width, l.height-3)
	lines := l.forest.draw(canvas{
		theme: l.theme, width: l.width, height: max(1, l.height-2-len(question)), now: now, frame: l.frame, decisionHelp: l.decisionHelp,
	})
	if l.height > 2 {
		lines = append(lines, l.theme.dim.Render(ansi.Truncate(l.footer(now), l.width, l.theme.ellipsis)))
	}
	lines = append(lines, question...)
	for len(lines) < l.pictureHeight {
		lines = append(lines, "")
	}
	l.pictureHeight = len(lines)
	l.picture = strings.Join(lines, "\n")
}

// footer returns the line below the tree: first what needs attention, then the summary.
func (l *liveView) footer(now time.Time) string {
	var parts []string
	if l.stopping {
		parts = append(parts, "stopping")
	}
	if l.questions.failed != "" {
		parts = append(parts, l.questions.failed)
	}
	if l.lost {
		parts = append(parts, "connection lost, reconnecting")
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
	return strings.Join(append(parts, l.forest.summary(now, l.theme.separator)), l.theme.separator)
}

// wipe removes the picture. The program has left the cursor on the last line of the picture.
func (l *liveView) wipe(out io.Writer) error {
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

// draw shows a watched session on a terminal until it is over, and returns its end. Ctrl-C calls
// interrupt. If a person can be asked, the session is not over while an approval is open.
func (l *liveView) draw(ctx context.Context, w *watcher, in io.Reader, out io.Writer) (*pb.Idle, error) {
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

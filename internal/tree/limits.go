package tree

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Limits are the caps of a session, fixed when it is opened. The running cap
// queues; all others refuse.
type Limits struct {
	Depth          int // how far below the root a task may be
	Width          int // children a task may ever have
	Total          int // tasks of a session
	Running        int // tasks of a session that are with workers at once
	RootIterations int // model calls of a root's run
	SubIterations  int // model calls of a sub-agent's run
	PartBytes      int // the text of one message part
	Inbox          int // messages that may wait for one task
	InboxBytes     int // the text of all messages that wait for one task, if there are several; 0: no cap
	Queue          int // tasks of a session that may wait for a worker; 0: no cap

	RunTimeout   time.Duration // how long a run may be RUNNING in all, where neither its agent nor who starts it says; 0: for ever
	Approval     time.Duration // how long an approval may be open; 0: for ever
	Escalate     bool          // sub-agents ask, where their definitions don't say
	OutputBytes  int           // what is shown of an output; 0: DefaultOutputBytes
	NoBackground bool          // nothing that an agent asks for runs in the background
}

// DefaultLimits are the caps of a session when nothing else is configured.
func DefaultLimits() Limits {
	return Limits{
		Depth:          4,
		Width:          1000,
		Total:          100_000,
		Running:        64,
		RootIterations: 100,
		SubIterations:  50,
		PartBytes:      1 << 20,
		Inbox:          1000,
		InboxBytes:     8 << 20,
		Queue:          20_000,
		Approval:       24 * time.Hour,
		Escalate:       true,
		OutputBytes:    DefaultOutputBytes,
	}
}

// Validate reports a cap that makes no sense.
func (l Limits) Validate() error {
	for _, c := range []struct {
		name string
		cap  int
	}{
		{"depth", l.Depth + 1}, {"width", l.Width}, {"total", l.Total}, {"running", l.Running},
		{"root iterations", l.RootIterations}, {"sub-agent iterations", l.SubIterations},
		{"part bytes", l.PartBytes}, {"inbox", l.Inbox}, {"inbox bytes", l.InboxBytes + 1}, {"queue", l.Queue + 1},
		{"output bytes", l.OutputBytes + 1},
	} {
		if c.cap < 1 {
			return fmt.Errorf("the cap on %s must be positive", c.name)
		}
	}
	if l.RunTimeout < 0 {
		return errors.New("the time for a run must not be negative")
	}
	if l.Approval < 0 {
		return errors.New("the time for an approval must not be negative")
	}
	return nil
}

// iterations is the allowance of a run of such an agent at this depth.
func (l Limits) iterations(a Agent, depth int) int {
	switch {
	case a.MaxIterations > 0:
		return a.MaxIterations
	case depth == 0:
		return l.RootIterations
	default:
		return l.SubIterations
	}
}

// timeout is how long a run of such an agent may be RUNNING in all; 0: for ever.
func (l Limits) timeout(a Agent) time.Duration { return cmp.Or(a.Timeout, l.RunTimeout) }

// checkPart refuses text that is over the bound of a message part.
func (l Limits) checkPart(what, text string) error { return l.checkSize(what, len(text)) }

func (l Limits) checkSize(what string, size int) error {
	if size > l.PartBytes {
		return ErrTooLarge.With("%s has %d bytes, the bound of a message part is %d", what, size, l.PartBytes)
	}
	return nil
}

// checkName refuses a name that is too long to be one, or that holds NUL, which
// nobody can show and not every database takes.
func checkName(what, name string) error {
	if len(name) > maxName {
		return ErrTooLarge.With("%s has %d bytes, the bound is %d", what, len(name), maxName)
	}
	if strings.ContainsRune(name, 0) {
		return ErrBadInput.With("%s holds a NUL byte", what)
	}
	return nil
}

// MaxBlocks bounds the parts of one message, and with them its calls.
const MaxBlocks = 2000

// checkAnswer refuses what no provider answers.
func (l Limits) checkAnswer(m *Message) error {
	u := m.Usage
	if min(u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Cost, u.Priced) < 0 {
		return ErrBadInput.With("usage is negative")
	}
	if u.Priced > u.Total() || u.Cost > 0 && u.Priced == 0 {
		return ErrBadInput.With("%d tokens of %d have a price", u.Priced, u.Total())
	}
	if err := checkName("the model", m.Model); err != nil {
		return err
	}
	return l.checkBlocks(m.Blocks)
}

func (l Limits) checkBlocks(blocks []Block) error {
	if len(blocks) > MaxBlocks {
		return ErrTooLarge.With("a message has %d parts, the bound is %d", len(blocks), MaxBlocks)
	}
	for i, b := range blocks {
		if err := l.checkSize(fmt.Sprintf("block %d", i), textBytes(b)); err != nil {
			return err
		}
	}
	return nil
}

// TextBytes is how much text blocks have.
func TextBytes(blocks []Block) (size int) {
	for _, b := range blocks {
		size += textBytes(b)
	}
	return size
}

// textBytes is how much text a block has.
func textBytes(b Block) int {
	switch b := b.(type) {
	case Text:
		return len(b.Text)
	case Thinking:
		return len(b.Text) + len(b.Signature)
	case ToolUse:
		return len(b.Name) + len(b.ProviderID) + len(b.Input)
	case ToolResult:
		return len(b.Text)
	case Attachment:
		return len(b.MediaType) + len(b.Name) + len(b.URL) + len(b.Data)
	}
	return 0
}

// checkInboxRoom refuses a message for which there is no room in a task's inbox. The first
// one always finds room. News takes none: there is as much as children have ended.
func (d *decision) checkInboxRoom(t *Task, blocks []Block) error {
	limits := d.session().Limits
	messages, size := 0, TextBytes(blocks)
	for _, e := range d.view.inbox[t.ID] {
		if (e.News == ChildRun{}) {
			messages++
			size += TextBytes(e.Blocks)
		}
	}
	switch {
	case messages >= limits.Inbox:
		return ErrInbox.With("%d, the bound is %d", messages, limits.Inbox)
	case messages > 0 && limits.InboxBytes > 0 && size > limits.InboxBytes:
		return ErrInboxBytes.With("they would have %d bytes, the bound is %d", size, limits.InboxBytes)
	}
	return nil
}

package tree

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Limits are the caps of a session, fixed when it is opened. Runs over the Running cap wait; all
// other caps refuse.
//
// Sessions are stored with their limits, as JSON. In a session of an earlier release a new field
// is 0, so 0 has to mean that there is no cap.
type Limits struct {
	Depth          int // how far below the root a task may be
	Width          int // children that a task may have in its lifetime
	Total          int // tasks of a session
	Running        int // tasks of a session that may be with workers at once
	RootIterations int // model calls of a root's run
	SubIterations  int // model calls of a sub-agent's run
	PartBytes      int // size of one message part
	Inbox          int // messages that may wait for one task
	InboxBytes     int // size of all messages that wait for one task, if there are several; 0: no cap
	Queue          int // tasks of a session that may wait for a worker; 0: no cap

	RunTimeout   time.Duration // how long a run may be RUNNING in total, unless its agent or its request says otherwise; 0: no limit
	Approval     time.Duration // how long an approval may be open; 0: no limit
	Escalate     bool          // sub-agents may ask for approval, unless their definitions say otherwise
	OutputBytes  int           // how much of an output is shown; 0: DefaultOutputBytes
	NoBackground bool          // agents cannot start anything in the background
}

// DefaultLimits are the caps of a session if nothing else is configured.
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

// maxPartBytes is the greatest cap on parts. A part has to fit into a request of 16 MiB: a worker
// would repeat a request that is refused for its size for ever.
const maxPartBytes = 15 << 20

// Validate refuses an invalid cap.
func (l Limits) Validate() error {
	for _, c := range []struct {
		name       string
		cap, least int
	}{
		{"depth", l.Depth, 0}, {"width", l.Width, 1}, {"total", l.Total, 1}, {"running", l.Running, 1},
		{"root iterations", l.RootIterations, 1}, {"sub-agent iterations", l.SubIterations, 1},
		{"part bytes", l.PartBytes, 1}, {"inbox", l.Inbox, 1}, {"inbox bytes", l.InboxBytes, 0}, {"queue", l.Queue, 0},
		{"output bytes", l.OutputBytes, 0},
	} {
		if c.cap < c.least {
			return fmt.Errorf("the cap on %s is %d, must be at least %d", c.name, c.cap, c.least)
		}
		if c.cap > math.MaxInt32 { // in messages and tables they have 32 bits
			return fmt.Errorf("the cap on %s is %d, must be at most %d", c.name, c.cap, math.MaxInt32)
		}
	}
	if l.PartBytes > maxPartBytes {
		return fmt.Errorf("the cap on part bytes is %d, must be at most %d", l.PartBytes, maxPartBytes)
	}
	if l.RunTimeout < 0 {
		return errors.New("the time for a run must not be negative")
	}
	if l.Approval < 0 {
		return errors.New("the time for an approval must not be negative")
	}
	return nil
}

// iterations is the limit of model calls of a run of an agent at a depth.
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

// timeout is how long a run of an agent may be RUNNING in total; 0: no limit.
func (l Limits) timeout(a Agent) time.Duration { return cmp.Or(a.Timeout, l.RunTimeout) }

// checkPart refuses text that is too large for a message part.
func (l Limits) checkPart(what, text string) error { return l.checkSize(what, len(text)) }

func (l Limits) checkSize(what string, size int) error {
	if size > l.PartBytes {
		return ErrTooLarge.With("%s has %d bytes, at most %d are allowed", what, size, l.PartBytes)
	}
	return nil
}

// checkName refuses a name that is too long, or that has a NUL character, which cannot be displayed
// and which not every database accepts.
func checkName(what, name string) error {
	if len(name) > maxName {
		return ErrTooLarge.With("%s has %d bytes, the bound is %d", what, len(name), maxName)
	}
	if strings.ContainsRune(name, 0) {
		return ErrBadInput.With("%s holds a NUL byte", what)
	}
	return nil
}

// MaxBlocks limits the parts of one message, and so its calls.
const MaxBlocks = 2000

// checkAnswer refuses a message that cannot be a provider's answer.
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
		what := "the message"
		if len(blocks) > 1 {
			what = fmt.Sprintf("part %d of the message", i)
		}
		if err := l.checkSize(what, textBytes(b)); err != nil {
			return err
		}
	}
	return nil
}

// TextBytes is the size of blocks in bytes.
func TextBytes(blocks []Block) (size int) {
	for _, b := range blocks {
		size += textBytes(b)
	}
	return size
}

// textBytes is the size of a block in bytes.
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

// checkInboxRoom refuses a message for which a task's inbox has no room. The first message always
// fits. News does not count: there is one entry per ended child.
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

package tree

import "testing"

func TestLimitsValidate(t *testing.T) {
	t.Parallel()
	if err := DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
	alone := DefaultLimits()
	alone.Depth = 0
	if err := alone.Validate(); err != nil {
		t.Errorf("a root alone: %v", err)
	}
	for name, spoil := range map[string]func(*Limits){
		"depth":     func(l *Limits) { l.Depth = -1 },
		"width":     func(l *Limits) { l.Width = 0 },
		"total":     func(l *Limits) { l.Total = 0 },
		"running":   func(l *Limits) { l.Running = 0 },
		"root":      func(l *Limits) { l.RootIterations = 0 },
		"sub-agent": func(l *Limits) { l.SubIterations = 0 },
		"part":      func(l *Limits) { l.PartBytes = 0 },
		"inbox":     func(l *Limits) { l.Inbox = -5 },
		"time":      func(l *Limits) { l.RunTimeout = -1 },
		// what a message, a column or a request can't hold
		"too many iterations": func(l *Limits) { l.RootIterations = 1 << 32 },
		"too many tasks":      func(l *Limits) { l.Running = 1 << 32 },
		"too large parts":     func(l *Limits) { l.PartBytes = 16 << 20 },
	} {
		l := DefaultLimits()
		spoil(&l)
		if l.Validate() == nil {
			t.Errorf("a bad cap on %s is taken", name)
		}
	}
}

func TestEveryKindOfBlockIsBounded(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	l.PartBytes = 4
	for _, b := range []Block{
		Text{Text: "12345"}, Thinking{Text: "12345"}, ToolUse{Input: []byte(`"123"`)}, ToolResult{Text: "12345"},
	} {
		if err := l.checkBlocks([]Block{Text{Text: "1234"}, b}); CodeOf(err) != CodeExhausted {
			t.Errorf("%T: %v", b, err)
		}
	}
	if err := l.checkBlocks([]Block{Text{Text: "1234"}, Thinking{Text: "1234"}}); err != nil {
		t.Error(err)
	}
}

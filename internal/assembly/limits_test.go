package assembly

import (
	"context"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/flags"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestLimitFlags: each flag sets its limit and no other, and without flags the limits are the
// default.
func TestLimitFlags(t *testing.T) {
	t.Parallel()
	lines := map[string]func(*tree.Limits){
		"":                       func(*tree.Limits) {},
		"--max-depth=7":          func(l *tree.Limits) { l.Depth = 7 },
		"--max-width=7":          func(l *tree.Limits) { l.Width = 7 },
		"--max-total=7":          func(l *tree.Limits) { l.Total = 7 },
		"--max-running=7":        func(l *tree.Limits) { l.Running = 7 },
		"--max-queue=7":          func(l *tree.Limits) { l.Queue = 7 },
		"--max-output=7":         func(l *tree.Limits) { l.OutputBytes = 7 },
		"--max-part=7":           func(l *tree.Limits) { l.PartBytes = 7 },
		"--max-iterations=7":     func(l *tree.Limits) { l.RootIterations = 7 },
		"--max-iterations-sub=7": func(l *tree.Limits) { l.SubIterations = 7 },
		"--run-timeout=7s":       func(l *tree.Limits) { l.RunTimeout = 7 * time.Second },
		"--no-background":        func(l *tree.Limits) { l.NoBackground = true },
		"--approvals=deny":       func(l *tree.Limits) { l.Escalate = false },
		"--approval-timeout=7s":  func(l *tree.Limits) { l.Approval = 7 * time.Second },
	}
	for line, set := range lines {
		var f LimitFlags
		p := flags.Program{
			Name: "x", Stdout: io.Discard, Stderr: io.Discard,
			Run: func(context.Context, any, []flags.Typed) error { return nil },
		}
		if err := p.Main(t.Context(), &f, strings.Fields(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got, want := tree.DefaultLimits(), tree.DefaultLimits()
		f.Apply(&got)
		set(&want)
		if got != want {
			t.Errorf("%q: got %+v, want %+v", line, got, want)
		}
	}
	declared := 0
	for _, field := range reflect.VisibleFields(reflect.TypeFor[LimitFlags]()) {
		if !field.Anonymous {
			declared++
		}
	}
	if tried := len(lines) - 1; tried != declared {
		t.Errorf("%d flags are tried, and %d declared", tried, declared)
	}
}

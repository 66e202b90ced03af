package dispatch

import (
	"testing"

	"github.com/coppice-run/coppice/internal/tree"
)

func FuzzDecode(f *testing.F) {
	h := Hint{Session: tree.SessionID{1}, Task: tree.TaskID{2}, Epoch: 3}
	f.Add(h.Session.String(), h.Task.String(), "3", "00-0af7-b7ad-01")
	f.Add("", "", "", "")
	f.Add(tree.SessionID{}.String(), h.Task.String(), "1", "")
	f.Add(h.Session.String(), h.Task.String(), "-1", "")
	f.Add(h.Session.String(), "{"+h.Task.String()[:34]+"}", "+1", "\xff")
	f.Fuzz(func(t *testing.T, session, task, epoch, more string) {
		h, err := decodeHint(map[string]any{
			fieldSession: session, fieldTask: task, fieldEpoch: epoch, "unknown": more,
		})
		if err != nil {
			return
		}
		if err := h.check(); err != nil {
			t.Fatalf("decoded what can't be sent: %v", err)
		}
		fields := h.fields()
		values := map[string]any{}
		for i := 0; i < len(fields); i += 2 {
			values[fields[i].(string)] = fields[i+1]
		}
		if again, err := decodeHint(values); err != nil || again != h {
			t.Fatalf("%v came back as %v, %v", h, again, err)
		}
	})
}

func TestDecodeOddValues(t *testing.T) {
	t.Parallel()
	for _, values := range []map[string]any{nil, {}, {fieldSession: 1, fieldTask: nil, fieldEpoch: int64(1)}} {
		if h, err := decodeHint(values); err == nil {
			t.Errorf("%v was read as %v", values, h)
		}
	}
}

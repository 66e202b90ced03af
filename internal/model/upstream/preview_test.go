package upstream_test

import (
	"testing"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// TestPreview: what was shown of an answer that was given up is taken back, once, and only if there was
// any text.
func TestPreview(t *testing.T) {
	t.Parallel()
	var said string
	p := upstream.NewPreview(func(d model.Delta) {
		if d.Restart {
			said += "|"
			return
		}
		said += d.Text
	})
	p.Show(model.Delta{})
	p.Retract()
	p.Show(model.Delta{Text: "so"})
	p.Retract()
	p.Retract()
	p.Show(model.Delta{Text: "otherwise"})
	if said != "so|otherwise" {
		t.Errorf("shown was %q", said)
	}
	upstream.NewPreview(nil).Show(model.Delta{Text: "to nobody"})
}

package upstream

import "github.com/coppice-run/coppice/internal/model"

// Preview emits an answer while it arrives. If the answer is refused midway and the request is
// made again, Preview retracts what it has emitted.
type Preview struct {
	emit  func(model.Delta)
	shown bool // some text of the current answer was emitted
}

// NewPreview returns a preview that writes to emit, which may be nil.
func NewPreview(emit func(model.Delta)) *Preview {
	if emit == nil {
		emit = func(model.Delta) {}
	}
	return &Preview{emit: emit}
}

// Show emits a delta.
func (p *Preview) Show(d model.Delta) {
	p.shown = p.shown || d.Text != ""
	p.emit(d)
}

// Retract announces that another answer starts, if some text of the last one was emitted.
func (p *Preview) Retract() {
	if p.shown {
		p.emit(model.Delta{Restart: true, Thinking: true, Text: "\n[refused; asking otherwise]\n"})
	}
	p.shown = false
}

package upstream

import "github.com/coppice-run/coppice/internal/model"

// Preview shows answers under way, and takes back what was shown of one that was refused half-way
// and is asked for otherwise.
type Preview struct {
	emit  func(model.Delta)
	shown bool // some text of the answer under way
}

// NewPreview shows through emit, which may be nil.
func NewPreview(emit func(model.Delta)) *Preview {
	if emit == nil {
		emit = func(model.Delta) {}
	}
	return &Preview{emit: emit}
}

// Show shows a piece.
func (p *Preview) Show(d model.Delta) {
	p.shown = p.shown || d.Text != ""
	p.emit(d)
}

// Retract says that another answer begins, if some text of the last one was shown.
func (p *Preview) Retract() {
	if p.shown {
		p.emit(model.Delta{Restart: true, Thinking: true, Text: "\n[refused; asking otherwise]\n"})
	}
	p.shown = false
}

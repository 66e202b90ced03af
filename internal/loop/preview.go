package loop

import (
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/redact"
)

// preview shows an answer in progress. Text that may be the beginning of a secret is held back
// until more is known, or until the answer is complete.
type preview struct {
	journal  Journal
	stream   *redact.Stream
	thinking bool
}

func (p *preview) show(d model.Delta) {
	switch {
	case d == model.Delta{}:
		return
	case d.Restart:
		p.stream.Drop()
		d.Text = p.stream.Write(d.Text) + p.stream.Flush()
		p.journal.Delta(d)
		return
	case d.Thinking != p.thinking:
		p.flush()
	}
	p.thinking = d.Thinking
	p.send(p.stream.Write(d.Text))
}

// flush shows what was held back. It is not called for an answer that failed.
func (p *preview) flush() { p.send(p.stream.Flush()) }

func (p *preview) send(text string) {
	if text != "" {
		p.journal.Delta(model.Delta{Text: text, Thinking: p.thinking})
	}
}

package tree

// Compact stores a summary that replaces the older part of a transcript for the model. The older
// messages stay stored and readable. Answer: [Stored].
type Compact struct {
	From
	UpTo    int     // the last message that is summarised
	Summary Message // the blocks of the summary, and the usage of the model's answer that it is made from
}

func (c Compact) needs(n *needs) { n.task(c.From.Task) }

func (c Compact) decide(d *decision) (Answer, error) {
	t, err := d.attempt(c.From)
	switch {
	case err != nil:
		return nil, err
	case t.OpenCalls > 0:
		return nil, ErrCallsOpen
	case c.UpTo < 1 || c.UpTo >= t.NextOrdinal || c.UpTo < t.Compacted:
		return nil, ErrBadInput.With("a summary up to message %d of %d, the last one is message %d", c.UpTo, t.NextOrdinal-1, t.Compacted)
	case Blank(c.Summary.Text()):
		return nil, ErrEmpty.With("summary")
	case c.Summary.MakesCalls():
		return nil, ErrHasCalls
	}
	if err := d.session().Limits.checkAnswer(&c.Summary); err != nil {
		return nil, err
	}
	d.recordRequest(t, c.From)
	d.session().ModelCalls++
	m := d.append(t, &Message{
		Role: RoleUser, Blocks: c.Summary.Blocks, UpTo: c.UpTo, Model: c.Summary.Model, Usage: c.Summary.Usage, Stop: c.Summary.Stop,
	})
	t.Compacted = m.Ordinal
	stored := d.atBoundary(t)
	stored.Ordinal = m.Ordinal
	return stored, nil
}

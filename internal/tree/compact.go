package tree

// Compact stores a summary in the place of the older part of a transcript. The
// part stays as it is and can be read; a model sees the summary instead. Answer:
// [Stored].
type Compact struct {
	From
	UpTo    int     // the last message that is summed up
	Summary Message // the summary as blocks, and what the answer that it is made of cost
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

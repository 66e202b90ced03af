package tree

import (
	"fmt"
	"time"
)

// mayHaveChild refuses a child that exceeds a cap or cannot be spawned.
func (d *decision) mayHaveChild(parent *Task, c Child) error {
	limits := d.session().Limits
	if err := checkName("the agent", c.AgentName); err != nil {
		return err
	}
	switch {
	case c.Agent == nil:
		return ErrNoAgent.With("%s", c.AgentName)
	case !c.Agent.Mode.MayBeSpawned():
		return ErrNotSubagent.With("%s", c.AgentName)
	case c.NoModel != "":
		return ErrNoModel.With("%s", c.NoModel)
	case Blank(c.Prompt):
		return ErrEmpty.With("prompt")
	case parent.Depth+1 > limits.Depth:
		return ErrTooDeep.With("%d", limits.Depth)
	case parent.Children+1 > limits.Width:
		return ErrTooWide.With("%d children of one task", limits.Width)
	case d.session().Total+1 > limits.Total:
		return ErrTooMany.With("%d tasks of one session", limits.Total)
	case c.Timeout < 0:
		return ErrBadInput.With("the timeout is negative")
	case !c.Deadline.IsZero() && !c.Deadline.After(d.env.Now):
		return ErrBadInput.With("deadline has passed already: %s", c.Deadline.Format(time.RFC3339))
	}
	if err := d.mayQueue(); err != nil {
		return err
	}
	if err := checkName("the description", c.Description); err != nil {
		return err
	}
	if err := checkName("the model", c.Model); err != nil {
		return err
	}
	if err := d.checkIterations(c); err != nil {
		return err
	}
	return c.checkText(limits)
}

// checkText refuses a prompt or context that is too large.
func (c Child) checkText(limits Limits) error {
	if err := limits.checkPart("the prompt", c.Prompt); err != nil {
		return err
	}
	if len(c.Context)+1 > MaxBlocks {
		return ErrTooLarge.With("the context has %d parts, the bound is %d", len(c.Context), MaxBlocks-1)
	}
	for i, text := range c.Context {
		if err := limits.checkPart(fmt.Sprintf("part %d of the context", i), text); err != nil {
			return err
		}
	}
	return nil
}

// messageBlocks is the first message of a child's run.
func (c Child) messageBlocks() []Block {
	blocks := []Block{Text{Text: c.Prompt}}
	for _, text := range c.Context {
		blocks = append(blocks, Text{Text: text})
	}
	return blocks
}

// checkIterations refuses a limit of model calls above that of a root and that of the agent.
func (d *decision) checkIterations(c Child) error {
	most := d.session().Limits.RootIterations
	if c.Agent != nil {
		most = max(most, c.Agent.MaxIterations)
	}
	if c.MaxIterations < 0 || c.MaxIterations > most {
		return ErrBadInput.With("max_iterations is %d, must be from 1 to %d", c.MaxIterations, most)
	}
	return nil
}

// mayQueue refuses a run when too many runs of the session wait for a worker.
func (d *decision) mayQueue() error {
	if s := d.session(); s.Limits.Queue > 0 && s.Pending >= s.Limits.Queue {
		return ErrQueue.With("%d", s.Limits.Queue)
	}
	return nil
}

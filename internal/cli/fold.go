package cli

import (
	"cmp"
	"slices"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// row is a row of the drawing: a task or, if node is nil, its siblings that are not shown.
type row struct {
	node *node
	// hidden counts what is not shown: for a task without shown children, everything below it; for
	// a row without a task, the siblings and everything below them.
	hidden tally
	// lastAtLevel says for each level below the root whether the row's branch is the last there.
	lastAtLevel []bool
}

// fold selects the tasks to show in a number of rows (0: no bound), and returns them in tree
// order. The root is always shown. Then come, by priority: running tasks, failed ones, waiting,
// pending, and those that ended last. A task is shown with its ancestors.
func (f *forest) fold(height int) []row {
	if f.root == nil {
		return nil
	}
	shown := map[*node]bool{f.root: true}
	if height <= 0 || f.root.descendants() < height {
		for _, n := range f.order {
			shown[n] = true
		}
	} else {
		chooseVisible(f, shown, height)
	}
	return rows(f.root, nil, shown, nil)
}

func (n *node) descendants() int {
	sum := len(n.children)
	for _, c := range n.children {
		sum += c.descendants()
	}
	return sum
}

// chooseVisible adds nodes to shown while there is room.
func chooseVisible(f *forest, shown map[*node]bool, height int) {
	byNeed := slices.Clone(f.order)
	slices.SortStableFunc(byNeed, func(a, b *node) int {
		if c := cmp.Compare(displayPriority(a), displayPriority(b)); c != 0 {
			return c
		}
		return b.end.Compare(a.end)
	})
	visible := map[*node]int{} // children that are shown
	used := 1
	for _, n := range byNeed {
		if shown[n] {
			continue
		}
		cost := 0
		for at := n; !shown[at]; at = at.parent {
			// A row for the node, and one for its siblings if some stay hidden.
			cost++
			v, all := visible[at.parent], len(at.parent.children)
			if v == 0 && all > 1 {
				cost++
			} else if v > 0 && v == all-1 {
				cost--
			}
		}
		if used+cost > height {
			continue
		}
		used += cost
		for at := n; !shown[at]; at = at.parent {
			shown[at] = true
			visible[at.parent]++
		}
	}
}

// displayPriority returns the priority of a node; 0 is the highest.
func displayPriority(n *node) int {
	switch n.state {
	case pb.TaskState_TASK_STATE_RUNNING:
		return 0
	case pb.TaskState_TASK_STATE_FAILED:
		return 1
	case pb.TaskState_TASK_STATE_WAITING:
		return 2
	case pb.TaskState_TASK_STATE_COMPLETED, pb.TaskState_TASK_STATE_CANCELLED:
		return 4
	}
	return 3
}

// rows appends the rows of a shown node and everything below it.
func rows(n *node, last []bool, shown map[*node]bool, out []row) []row {
	at := row{node: n, lastAtLevel: last}
	var visible []*node
	var hidden tally
	for _, c := range n.children {
		if shown[c] {
			visible = append(visible, c)
		} else {
			hidden.addBelow(c)
		}
	}
	if len(visible) == 0 {
		at.hidden = hidden
		return append(out, at)
	}
	out = append(out, at)
	for i, c := range visible {
		isLast := i == len(visible)-1 && hidden.total() == 0
		out = rows(c, append(slices.Clip(last), isLast), shown, out)
	}
	if hidden.total() > 0 {
		out = append(out, row{hidden: hidden, lastAtLevel: append(slices.Clip(last), true)})
	}
	return out
}

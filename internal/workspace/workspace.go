// Package workspace gives runs the directories that they work in: one for all
// sessions, or one a session below a root, and in it a git worktree for each
// sub-agent that wants one.
//
// What there is, is in the directories alone. So workers that share them, one after
// another or at once, find the same, and a worker that dies leaves nothing that
// another can't go on from.
package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// newDirMode is that of a session's directory.
const newDirMode = 0o700

// Config says where the directories are: one of Dir and Root.
type Config struct {
	Dir     string           // in which all sessions work
	Root    string           // below which each session has a directory
	Sandbox *sandbox.Sandbox // for git
}

// Places are the directories that the runs of a worker work in. They are safe for use
// by many goroutines at once.
type Places struct {
	Config
	mu   sync.Mutex
	open map[string]*shared // by their path
}

// shared is a directory that some runs work in: their changes to a file come one
// after another because they have the same Workspace.
type shared struct {
	*tool.Workspace
	users int
}

// New checks that the directory is there.
func New(c Config) (*Places, error) {
	if (c.Dir == "") == (c.Root == "") {
		return nil, errors.New("workspaces: need either one directory for all sessions or a root for one each")
	}
	for _, dir := range []*string{&c.Dir, &c.Root} {
		if *dir == "" {
			continue
		}
		w, err := tool.OpenWorkspace(*dir)
		if err != nil {
			return nil, err
		}
		*dir = w.Dir()
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("workspaces: %w", err)
		}
	}
	return &Places{Config: c, open: map[string]*shared{}}, nil
}

// Run says what is to be known of a run to find its place.
type Run struct {
	Session   tree.SessionID
	Name      string // of the directory that the session shares with others; empty: it has its own
	Task      tree.TaskID
	Attempt   string        // no other attempt of the task has it
	Worktrees []tree.TaskID // in whose worktrees it works, each below the one before
}

// Place is where a run works.
type Place struct {
	*tool.Workspace
	places *Places
	base   *tool.Workspace // the session's directory, if the run works below it; or nil
	own    []worktree      // the last of which is the worktree of the run's task; empty: it has none
	owner  string
}

// Enter gives a run its place, and makes what is missing of it. The caller leaves it.
func (p *Places) Enter(ctx context.Context, r Run) (_ *Place, err error) {
	base, err := p.enterSession(r)
	if err != nil || len(r.Worktrees) == 0 {
		return &Place{Workspace: base, places: p}, err
	}
	place := &Place{places: p, base: base}
	chain := worktrees(r.Worktrees)
	if last := chain[len(chain)-1]; last.id == r.Task {
		place.own, place.owner = chain, r.Attempt
	}
	dir := chain[len(chain)-1].dir
	err = p.inRepository(ctx, base.Resolved(), func(repo *repository) error { return repo.ensure(ctx, chain, place.owner) })
	if err == nil {
		place.Workspace, err = p.enter(filepath.Join(base.Resolved(), dir), func() (*tool.Workspace, error) {
			return base.Below(dir, filepath.Join(base.Resolved(), gitDir))
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a git worktree for the agent: %w", err), p.leave(base))
	}
	return place, nil
}

// enterSession gives the directory of a session.
func (p *Places) enterSession(r Run) (*tool.Workspace, error) {
	if p.Dir != "" {
		if r.Name != "" {
			return nil, fmt.Errorf("the session wants the workspace %q, and this worker has one workspace for all sessions; start it with --workspaces", r.Name)
		}
		return p.enter(p.Dir, func() (*tool.Workspace, error) { return tool.OpenWorkspace(p.Dir) })
	}
	name := r.Session.String()
	if r.Name != "" {
		if err := tree.CheckWorkspace(r.Name); err != nil {
			return nil, err
		}
		name = r.Name
	}
	dir := filepath.Join(p.Root, name)
	return p.enter(dir, func() (*tool.Workspace, error) {
		if err := os.Mkdir(dir, newDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("making the workspace of the session: %w", err)
		}
		return tool.OpenWorkspace(dir)
	})
}

// enter counts a run in, and opens the directory for the first.
func (p *Places) enter(dir string, open func() (*tool.Workspace, error)) (*tool.Workspace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.open[dir]
	if s == nil {
		w, err := open()
		if err != nil {
			return nil, err
		}
		s = &shared{Workspace: w}
		p.open[dir] = s
	}
	s.users++
	return s.Workspace, nil
}

// leave counts a run out; the last closes the directory.
func (p *Places) leave(w *tool.Workspace) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for dir, s := range p.open {
		if s.Workspace != w {
			continue
		}
		if s.users--; s.users > 0 {
			return nil
		}
		delete(p.open, dir)
		return w.Close()
	}
	return nil
}

// Leave gives the place back.
func (p *Place) Leave() error {
	err := p.places.leave(p.Workspace)
	if p.base != nil {
		err = errors.Join(err, p.places.leave(p.base))
	}
	return err
}

// Owns reports whether the run has a worktree of its own.
func (p *Place) Owns() bool { return len(p.own) > 0 }

// Kept says what the run's own worktree holds that its parent has not, for whoever
// reads the result of the run; empty if there is nothing, or no such worktree.
func (p *Place) Kept(ctx context.Context) string {
	if !p.Owns() {
		return ""
	}
	own := p.own[len(p.own)-1]
	var left state
	err := p.places.inRepository(ctx, p.base.Resolved(), func(repo *repository) (err error) {
		left, err = repo.look(ctx, p.own)
		return err
	})
	if err != nil {
		return fmt.Sprintf("[worktree %s, branch %s: what was changed there is kept; it could not be looked at: %v]", own.path(), own.branch(), err)
	}
	if left.empty() {
		return ""
	}
	return fmt.Sprintf("[worktree %s, branch %s: %s]", own.path(), own.branch(), left)
}

// Clear removes the run's own worktree if it holds nothing that its parent has not,
// and nobody has entered it since as its owner. The run has ended, and has not left.
func (p *Place) Clear(ctx context.Context) error {
	if !p.Owns() {
		return nil
	}
	err := p.places.inRepository(ctx, p.base.Resolved(), func(repo *repository) error { return repo.clear(ctx, p.own, p.owner) })
	if err != nil {
		return fmt.Errorf("removing a worktree: %w", err)
	}
	return nil
}

// inRepository does something with the repository of a session's directory.
func (p *Places) inRepository(ctx context.Context, dir string, do func(*repository) error) (err error) {
	repo, err := openRepository(ctx, dir, git{p.Sandbox})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.close()) }()
	return do(repo)
}

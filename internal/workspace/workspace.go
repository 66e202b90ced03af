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
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

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
	open map[string]*shared // by their path; what was replaced on the disk is not in it
}

// shared is a directory that some runs work in: their changes to a file come one
// after another because they have the same Workspace.
type shared struct {
	*tool.Workspace
	users int
	lock  *os.File // of a worktree: says that it is used; or nil
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
	here   *shared
	base   *shared    // the session's directory, if the run works below it; or nil
	own    []worktree // the last of which is the worktree of the run's task; empty: it has none
	owner  string
}

// Enter gives a run its place, and makes what is missing of it. The caller leaves it.
func (p *Places) Enter(ctx context.Context, r Run) (*Place, error) {
	base, err := p.enterSession(r)
	if err != nil {
		return nil, err
	}
	if len(r.Worktrees) == 0 {
		return &Place{Workspace: base.Workspace, places: p, here: base}, nil
	}
	place := &Place{places: p, base: base}
	chain := worktrees(r.Worktrees)
	if last := chain[len(chain)-1]; last.id == r.Task {
		place.own, place.owner = chain, r.Attempt
	}
	err = p.inRepository(ctx, base.Resolved(), func(repo *repository) (err error) {
		if err := repo.ensure(ctx, chain, place.owner); err != nil {
			return err
		}
		place.here, err = p.enterWorktree(base, repo, chain[len(chain)-1])
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a git worktree for the agent: %w", err), p.leave(base))
	}
	place.Workspace = place.here.Workspace
	return place, nil
}

// enterWorktree gives a worktree that is there. It is used from then on.
func (p *Places) enterWorktree(base *shared, repo *repository, w worktree) (*shared, error) {
	return p.enter(filepath.Join(base.Resolved(), w.dir), func() (*shared, error) {
		lock, err := repo.use(w)
		if err != nil {
			return nil, err
		}
		below, err := base.Subdir(w.dir, filepath.Join(base.Resolved(), gitDir))
		if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		return &shared{Workspace: below, lock: lock}, nil
	})
}

// enterSession gives the directory of a session.
func (p *Places) enterSession(r Run) (*shared, error) {
	if p.Dir != "" {
		if r.Name != "" {
			return nil, fmt.Errorf("the session wants the workspace %q, and this worker has one workspace for all sessions; start it with --workspaces", r.Name)
		}
		return p.enter(p.Dir, func() (*shared, error) { return open(p.Dir) })
	}
	name := r.Session.String()
	if r.Name != "" {
		if err := tree.CheckWorkspace(r.Name); err != nil {
			return nil, err
		}
		name = r.Name
	}
	dir := filepath.Join(p.Root, name)
	return p.enter(dir, func() (*shared, error) {
		if err := os.Mkdir(dir, newDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("making the workspace of the session: %w", err)
		}
		return open(dir)
	})
}

func open(dir string) (*shared, error) {
	w, err := tool.OpenWorkspace(dir)
	if err != nil {
		return nil, err
	}
	return &shared{Workspace: w}, nil
}

// enter counts a run in, and opens the directory for the first, or if another one has
// taken its place.
func (p *Places) enter(dir string, open func() (*shared, error)) (*shared, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.open[dir]
	if s == nil || !s.AtPath() {
		var err error
		if s, err = open(); err != nil {
			return nil, err
		}
		p.open[dir] = s
	}
	s.users++
	return s, nil
}

// leave counts a run out; the last closes the directory.
func (p *Places) leave(s *shared) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	maps.DeleteFunc(p.open, func(_ string, o *shared) bool { return o == s })
	err := s.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}

// used reports whether others work where a run does. The repository is locked.
func (p *Places) used(s *shared) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users > 1 {
		return true, nil
	}
	return used(s.lock)
}

// Leave gives the place back.
func (p *Place) Leave() error {
	err := p.places.leave(p.here)
	if p.base != nil {
		err = errors.Join(err, p.places.leave(p.base))
	}
	return err
}

// Share gives the place to what outlives the run, which has not left. It owns nothing, and
// is left as well.
func (p *Place) Share() *Place {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	p.here.users++
	if p.base != nil {
		p.base.users++
	}
	return &Place{Workspace: p.Workspace, places: p.places, here: p.here, base: p.base}
}

// Owns reports whether the run has a worktree of its own.
func (p *Place) Owns() bool { return len(p.own) > 0 }

// keptPatience is how long the end of a run waits for a lock that somebody has: an agent may
// have it for good.
const keptPatience = time.Minute

// Kept says what the run's own worktree holds that its parent has not, for whoever
// reads the result of the run; empty if there is nothing, or no such worktree.
func (p *Place) Kept(ctx context.Context) string {
	if !p.Owns() {
		return ""
	}
	own := p.own[len(p.own)-1]
	var left state
	waiting, cancel := context.WithTimeout(ctx, keptPatience)
	defer cancel()
	err := p.places.inRepository(waiting, p.base.Resolved(), func(repo *repository) (err error) {
		left, err = p.look(ctx, repo)
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

// look says what the run's own worktree holds that its parent has not.
func (p *Place) look(ctx context.Context, repo *repository) (state, error) {
	if !repo.is(p.own[len(p.own)-1].dir) {
		return state{}, nil // it was removed
	}
	left, err := repo.look(ctx, p.own)
	if err != nil {
		return state{}, err
	}
	left.used, err = p.places.used(p.here)
	return left, err
}

// Clear removes the run's own worktree if it holds nothing that its parent has not,
// nobody else works in it, and nobody has entered it since as its owner. The run has
// ended, and has not left.
func (p *Place) Clear(ctx context.Context) error {
	if !p.Owns() {
		return nil
	}
	err := p.places.inRepository(ctx, p.base.Resolved(), func(repo *repository) error {
		return repo.clear(ctx, p.own[len(p.own)-1], p.owner, func() (state, error) { return p.look(ctx, repo) })
	})
	if err != nil {
		return fmt.Errorf("removing a worktree: %w", err)
	}
	return nil
}

// inRepository does something with the repository of a session's directory. Its lock is
// waited for as long as the context lives.
func (p *Places) inRepository(waiting context.Context, dir string, do func(*repository) error) (err error) {
	repo, err := openRepository(waiting, dir, git{p.Sandbox})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.close()) }()
	return do(repo)
}

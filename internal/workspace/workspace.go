// Package workspace provides the directories that runs work in: one for all sessions, or one
// per session below a root. In that directory, each sub-agent that is configured for it gets a
// git worktree.
//
// All state is in the directories. Workers that share them, one after another or at the same
// time, see the same state, and a worker that dies leaves nothing that another one cannot
// continue from.
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

// newDirMode is the mode of new directories.
const newDirMode = 0o700

// Config sets the directories. Exactly one of Dir and Root is required.
type Config struct {
	Dir     string           // directory of all sessions
	Root    string           // parent of the sessions' directories
	Sandbox *sandbox.Sandbox // runs git
}

// Places manages the directories of the runs of a worker. It is safe for concurrent use.
type Places struct {
	Config
	lockTimeout time.Duration // changesLockTimeout, except in tests
	mu          sync.Mutex
	open        map[string]*shared // by path; without directories that were replaced on disk
	lastLeft    *shared            // has no users; stays open for the next run, or until another is left
}

// shared is an open directory with its users. They share one Workspace, which serialises their
// changes to a file.
type shared struct {
	*tool.Workspace
	users    int
	lock     *os.File  // of a worktree: shows that it is in use; nil otherwise
	lookedAt time.Time // when its path last led to it
}

// lookEvery is how often it is checked whether the path of a directory that has users still leads
// to it. Without users, and for a worktree, it is checked for each run that enters: the last run of
// a task may have removed the worktree and not left it yet.
const lookEvery = 100 * time.Millisecond

// isCurrent reports whether the path of the directory leads to it.
func (s *shared) isCurrent(now time.Time) bool {
	if s.lock == nil && s.users > 0 && now.Sub(s.lookedAt) < lookEvery {
		return true
	}
	s.lookedAt = now
	return s.AtPath()
}

// New checks that the directory exists.
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
	return &Places{Config: c, lockTimeout: changesLockTimeout, open: map[string]*shared{}}, nil
}

// Run identifies a run and the directory that it works in.
type Run struct {
	Session   tree.SessionID
	Name      string // of a directory shared between sessions; empty: the session has its own
	Task      tree.TaskID
	Attempt   string        // unique among the attempts of the task
	Worktrees []tree.TaskID // tasks of the nested worktrees, outermost first; it works in the last one
}

// Place is the directory of a run.
type Place struct {
	*tool.Workspace
	places *Places
	dir    *shared
	base   *shared    // the session's directory, if the run works in a worktree below it
	own    []worktree // the chain that ends with the worktree of the run's task; empty: it has none
	owner  string
}

// Enter returns the place of a run, and creates what is missing. The caller must call Leave.
func (p *Places) Enter(ctx context.Context, r Run) (*Place, error) {
	base, err := p.enterSession(r)
	if err != nil {
		return nil, err
	}
	if len(r.Worktrees) == 0 {
		return &Place{Workspace: base.Workspace, places: p, dir: base}, nil
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
		place.dir, err = p.enterWorktree(base, repo, chain[len(chain)-1])
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a git worktree for the agent: %w", err), p.leave(base))
	}
	place.Workspace = place.dir.Workspace
	return place, nil
}

// enterWorktree opens an existing worktree and marks it as in use.
func (p *Places) enterWorktree(base *shared, repo *repository, w worktree) (*shared, error) {
	return p.enter(filepath.Join(base.Resolved(), w.dir), func() (*shared, error) {
		lock, err := repo.markInUse(w)
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

// enterSession opens the directory of a session.
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

// enter adds a user to a directory. It opens the directory if it is not open, or if another directory
// has replaced it, which those who enter within lookEvery may not see yet: they join the runs that
// work in the old one.
func (p *Places) enter(dir string, open func() (*shared, error)) (*shared, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, now := p.open[dir], time.Now()
	if s == nil || !s.isCurrent(now) {
		var err error
		if s, err = open(); err != nil {
			return nil, err
		}
		s.lookedAt = now
		p.open[dir] = s
	}
	if s == p.lastLeft {
		p.lastLeft = nil
	}
	s.users++
	return s, nil
}

// leave removes a user from a directory. If it was the last one, a worktree is closed. Another
// directory stays open, because the session's next run often follows at once; the one that was left
// before it is closed.
func (p *Places) leave(s *shared) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	if s.lock != nil {
		return errors.Join(p.close(s), s.lock.Close())
	}
	before := p.lastLeft
	p.lastLeft = s
	if before == nil {
		return nil
	}
	return p.close(before)
}

func (p *Places) close(s *shared) error {
	maps.DeleteFunc(p.open, func(_ string, o *shared) bool { return o == s })
	return s.Close()
}

// isInUse reports whether others work in the directory. The repository lock must be held.
func (p *Places) isInUse(s *shared) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users > 1 {
		return true, nil
	}
	return isShared(s.lock)
}

// Leave releases the place.
func (p *Place) Leave() error {
	err := p.places.leave(p.dir)
	if p.base != nil {
		err = errors.Join(err, p.places.leave(p.base))
	}
	return err
}

// Share returns the place for a user that outlives the run. Call it before Leave. The result
// owns no worktree, and needs a Leave of its own.
func (p *Place) Share() *Place {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	p.dir.users++
	if p.base != nil {
		p.base.users++
	}
	return &Place{Workspace: p.Workspace, places: p.places, dir: p.dir, base: p.base}
}

// OwnsWorktree reports whether the run has its own worktree.
func (p *Place) OwnsWorktree() bool { return len(p.own) > 0 }

// changesLockTimeout bounds how long the end of a run waits for the repository lock, because an
// agent could hold it for ever.
const changesLockTimeout = time.Minute

// ChangesNote describes what the run's worktree has that its parent does not have, for the
// reader of the result. It is empty if there is nothing, or no such worktree.
func (p *Place) ChangesNote(ctx context.Context) string {
	if !p.OwnsWorktree() {
		return ""
	}
	own := p.own[len(p.own)-1]
	var left changes
	waiting, cancel := context.WithTimeout(ctx, p.places.lockTimeout)
	defer cancel()
	err := p.places.inRepository(waiting, p.base.Resolved(), func(repo *repository) (err error) {
		left, err = p.changes(ctx, repo)
		return err
	})
	if err != nil {
		return fmt.Sprintf("[worktree %s, branch %s: what was changed there is kept; it could not be looked at: %v]", own.path(), own.branch(), err)
	}
	if left.isEmpty() {
		return ""
	}
	return fmt.Sprintf("[worktree %s, branch %s: %s]", own.path(), own.branch(), left)
}

// changes returns what the run's worktree has that its parent does not have.
func (p *Place) changes(ctx context.Context, repo *repository) (changes, error) {
	there, err := repo.exists(p.own[len(p.own)-1].dir)
	if err != nil {
		return changes{}, err
	}
	if !there {
		return repo.changesWithoutDir(ctx, p.own)
	}
	for {
		inUse, err := p.places.isInUse(p.dir)
		if err != nil {
			return changes{}, err
		}
		left, err := repo.changesOf(ctx, p.own)
		if err != nil || !inUse {
			return left, err
		}
		// A user that has left meanwhile may have written something after the look at the files. Nobody
		// enters while the repository is locked, so the next look is the last one.
		if left.inUse, err = p.places.isInUse(p.dir); err != nil || left.inUse {
			return left, err
		}
	}
}

// RemoveIfUnchanged removes the run's worktree under three conditions: it has nothing that its
// parent does not have, no one else works in it, and no other owner has entered it since. Call
// it after the run has ended and before Leave.
func (p *Place) RemoveIfUnchanged(ctx context.Context) error {
	if !p.OwnsWorktree() {
		return nil
	}
	err := p.places.inRepository(ctx, p.base.Resolved(), func(repo *repository) error {
		return repo.removeIfEmpty(ctx, p.own[len(p.own)-1], p.owner, func() (changes, error) { return p.changes(ctx, repo) })
	})
	if err != nil {
		return fmt.Errorf("removing a worktree: %w", err)
	}
	return nil
}

// inRepository calls do with the locked repository of a session's directory. waiting bounds the
// wait for the lock.
func (p *Places) inRepository(waiting context.Context, dir string, do func(*repository) error) (err error) {
	repo, err := openRepository(waiting, dir, git{p.Sandbox})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, repo.close()) }()
	return do(repo)
}

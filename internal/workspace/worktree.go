package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/coppice-run/coppice/internal/tool"
	"github.com/coppice-run/coppice/internal/tree"
)

// worktree is the git worktree of a task. That it is all there says a mark, which is made
// last and removed first. It is with the repository, where git does not remove it with
// all that it takes no notice of.
type worktree struct {
	id     tree.TaskID
	parent string // the directory of the workspace that it is a worktree of
	dir    string // its own; both from the session's directory
}

// worktrees gives the worktrees of tasks, each below the one before.
func worktrees(ids []tree.TaskID) []worktree {
	chain := make([]worktree, len(ids))
	parent := "."
	for i, id := range ids {
		chain[i] = worktree{id: id, parent: parent, dir: filepath.Join(parent, tool.WorktreesDir, id.String())}
		parent = chain[i].dir
	}
	return chain
}

func (w worktree) branch() string { return branchPrefix + w.id.String() }

// path is where its parent finds it.
func (w worktree) path() string { return tool.WorktreesDir + "/" + w.id.String() }

// admin is the directory in the repository that belongs to it.
func (w worktree) admin() string { return filepath.Join(gitDir, "worktrees", w.id.String()) }

func (w worktree) readyMark() string { return filepath.Join(w.admin(), "coppice-ready") }

// index is written when all files are laid out, and removed before the first of them.
func (w worktree) index() string { return filepath.Join(w.admin(), "index") }

// gitLock is git's: it does not take a worktree for gone that has it, where its directory is not
// seen. Commands in one worktree do not see the others.
func (w worktree) gitLock() string { return filepath.Join(w.admin(), "locked") }

// gitLockReason is what git says when somebody wants to remove a worktree.
const gitLockReason = "a sub-agent works here, or may be resumed"

// usersLock is the file whose lock all share that work there.
func (w worktree) usersLock() string { return filepath.Join(w.admin(), "coppice-users") }

func (w worktree) forgottenError() error {
	return fmt.Errorf("the repository has forgotten the worktree %s; save what is wanted of it and remove it", w.dir)
}

// legacyMark ends the name of the mark beside a worktree, where workers of the release before
// look for it: they take a worktree without for one that was cut off, and remove it.
const legacyMark = ".ready"

// markReady marks a worktree.
func (r *repository) markReady(w worktree, text string) error {
	if err := r.write(w.gitLock(), gitLockReason+"\n"); err != nil { // older workers have not
		return err
	}
	if err := r.write(w.dir+legacyMark, text); err != nil {
		return err
	}
	return r.write(w.readyMark(), text)
}

// ensure makes what is missing of a chain of worktrees. The last is marked with its
// owner, if there is one.
func (r *repository) ensure(ctx context.Context, chain []worktree, owner string) error {
	for i := range chain {
		if err := r.ensureOne(ctx, chain[:i+1]); err != nil {
			return err
		}
	}
	if owner == "" {
		return nil
	}
	return r.markReady(chain[len(chain)-1], owner+"\n")
}

func (r *repository) ensureOne(ctx context.Context, chain []worktree) error {
	w := chain[len(chain)-1]
	if err := r.makeIgnoredDir(filepath.Dir(w.dir)); err != nil {
		return err
	}
	switch there := r.exists(w.dir); {
	case there && !r.exists(w.admin()):
		return w.forgottenError()
	case there && r.exists(w.readyMark()):
		return r.checkPath(w.dir)
	case there && r.exists(w.index()): // it was cut off before the mark, or an older worker has made it
		return errors.Join(r.checkPath(w.dir), r.markReady(w, "\n"))
	}
	if err := r.discard(w); err != nil { // its files were never all laid out: nobody has worked there
		return err
	}
	from, err := r.head(ctx, chain[:len(chain)-1])
	if err != nil {
		return err
	}
	if err := r.add(ctx, w, from); err != nil {
		return err
	}
	return r.markReady(w, "\n")
}

// add makes a worktree on its branch. A branch that is there already is gone on with.
func (r *repository) add(ctx context.Context, w worktree, from string) error {
	at := []string{"-b", w.branch(), r.path(w.dir), from}
	if _, err := r.runGit(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.branch()); err == nil {
		at = []string{r.path(w.dir), w.branch()}
	} else if ctx.Err() != nil {
		return err
	}
	// Files come after: git would run filters for them.
	if _, err := r.runGit(ctx, append([]string{"worktree", "add", "--quiet", "--no-checkout", "--lock"}, at...)...); err != nil {
		return err
	}
	head, err := r.head(ctx, []worktree{w})
	if err != nil {
		return err
	}
	_, err = r.runIsolated(ctx, w, head, "read-tree", "-u", "--reset", head)
	return err
}

// discard removes what is left of a worktree, and what would keep git from making it.
// Its branch stays.
func (r *repository) discard(w worktree) error {
	branchLock := filepath.Join(gitDir, "refs", "heads", w.branch()+".lock")
	for _, name := range []string{w.readyMark(), w.index(), w.dir, w.admin(), branchLock, w.dir + legacyMark} {
		if err := r.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// look says what the last worktree of a chain holds that its parent has not.
func (r *repository) changesOf(ctx context.Context, chain []worktree) (changes, error) {
	w := chain[len(chain)-1]
	if !r.exists(w.admin()) {
		return changes{}, w.forgottenError()
	}
	if err := r.checkPath(w.dir); err != nil {
		return changes{}, err
	}
	parent, err := r.head(ctx, chain[:len(chain)-1])
	if err != nil {
		return changes{}, err
	}
	head, err := r.head(ctx, chain)
	if err != nil {
		return changes{}, err
	}
	tips := []string{head}
	if tip, err := r.branchTip(ctx, w); err == nil {
		tips = append(tips, tip)
	}
	counted, err := r.runGit(ctx, append(append([]string{"rev-list", "--count"}, tips...), "--not", parent)...)
	if err != nil {
		return changes{}, err
	}
	var s changes
	if s.commits, err = strconv.Atoi(counted); err != nil {
		return changes{}, fmt.Errorf("counting commits: %w", err)
	}
	if s.files, err = r.isChanged(ctx, w, head); err != nil {
		return changes{}, err
	}
	if s.submodules, err = r.hasSubmodules(ctx, w, head); err != nil {
		return changes{}, err
	}
	s.nested, err = r.hasNested(w)
	return s, err
}

// isChanged reports whether files, or the commits of submodules, differ from the commit
// that a worktree is at.
func (r *repository) isChanged(ctx context.Context, w worktree, head string) (bool, error) {
	// Submodules are left out: git would go into them, and run what they name.
	changed, err := r.runIsolated(ctx, w, head, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames")
	if err != nil || changed != "" {
		return changed != "", err
	}
	// That is not so where only the index is looked at.
	changed, err = r.runIsolated(ctx, w, head, "diff-index", "--cached", "--name-only", "--ignore-submodules=none", "--no-renames", head)
	return changed != "", err
}

func (r *repository) branchTip(ctx context.Context, w worktree) (string, error) {
	return r.runGit(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+w.branch())
}

// hasNested reports whether there are worktrees of agents that work in a worktree. It
// never blocks, whatever an agent has put there.
func (r *repository) hasNested(w worktree) (bool, error) {
	dir, err := r.root.OpenFile(filepath.Join(w.dir, tool.WorktreesDir), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for worktrees: %w", err)
	}
	entries, err := dir.ReadDir(-1)
	for _, e := range entries {
		if e.IsDir() {
			return true, dir.Close()
		}
	}
	return false, errors.Join(err, dir.Close())
}

// markInUse says that somebody works in a worktree, until the file is closed or the process
// ends.
func (r *repository) markInUse(w worktree) (*os.File, error) {
	file, err := r.lockFile(w.usersLock())
	if err != nil {
		return nil, err
	}
	if err := flock(file, syscall.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("sharing the lock %s: %w", w.usersLock(), err), file.Close())
	}
	return file, nil
}

// removeIfEmpty removes a worktree, with its branch, if its owner is the last that has entered
// it, and it is empty.
func (r *repository) removeIfEmpty(ctx context.Context, w worktree, owner string, look func() (changes, error)) error {
	if marked, err := r.read(w.readyMark()); err != nil || marked != owner {
		return nil //nolint:nilerr // it was removed, or somebody else's
	}
	left, err := look()
	if err != nil || !left.isEmpty() {
		return err
	}
	if err := r.discard(w); err != nil {
		return err
	}
	tip, err := r.branchTip(ctx, w)
	if err != nil {
		return nil //nolint:nilerr // it has no branch
	}
	// Not if it was moved meanwhile.
	_, err = r.runGit(ctx, "update-ref", "-d", "refs/heads/"+w.branch(), tip)
	return err
}

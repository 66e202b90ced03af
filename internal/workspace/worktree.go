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

// worktree is the git worktree of a task. A marker file says that it is complete. The marker is
// created last and removed first. It is in the repository, because git could remove it from the
// worktree together with untracked files.
type worktree struct {
	id     tree.TaskID
	parent string // directory that it is a worktree of
	dir    string // its directory; both are relative to the session's directory
}

// worktrees returns the worktrees of tasks. Each is nested in the one before.
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

// path returns the path relative to the parent.
func (w worktree) path() string { return tool.WorktreesDir + "/" + w.id.String() }

// admin returns the worktree's directory in the repository.
func (w worktree) admin() string { return filepath.Join(gitDir, "worktrees", w.id.String()) }

func (w worktree) readyMark() string { return filepath.Join(w.admin(), "coppice-ready") }

// index returns the index file. It is written when all files are checked out, and removed
// before the first of them.
func (w worktree) index() string { return filepath.Join(w.admin(), "index") }

// gitLock returns git's own lock file of the worktree. It keeps git from pruning the worktree
// where its directory is not visible: commands in one worktree do not see the others.
func (w worktree) gitLock() string { return filepath.Join(w.admin(), "locked") }

// gitLockReason is what git reports to a user who tries to remove a worktree.
const gitLockReason = "a sub-agent works here, or may be resumed"

// usersLock returns the file on which all users of the worktree hold a shared lock.
func (w worktree) usersLock() string { return filepath.Join(w.admin(), "coppice-users") }

func (w worktree) forgottenError() error {
	return fmt.Errorf("the repository has forgotten the worktree %s; save what is wanted of it and remove it", w.dir)
}

// legacyMark is the suffix of a second marker beside the worktree. Workers of the previous
// release look for it there. Without it they would take the worktree for incomplete, and remove
// it.
const legacyMark = ".ready"

// markReady creates the markers of a worktree.
func (r *repository) markReady(w worktree, text string) error {
	if err := r.write(w.gitLock(), gitLockReason+"\n"); err != nil { // older workers have not written it
		return err
	}
	if err := r.write(w.dir+legacyMark, text); err != nil {
		return err
	}
	return r.write(w.readyMark(), text)
}

// ensure creates the missing worktrees of a chain. It marks the last one with its owner, if
// there is one.
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
	there, dirErr := r.exists(w.dir)
	known, adminErr := r.exists(w.admin())
	ready, markErr := r.exists(w.readyMark())
	complete, indexErr := r.exists(w.index())
	if err := errors.Join(dirErr, adminErr, markErr, indexErr); err != nil {
		return err
	}
	switch {
	case there && !known:
		return w.forgottenError()
	case there && ready:
		return r.checkPath(w.dir)
	case there && complete: // interrupted before the marker, or created by an older worker
		return errors.Join(r.checkPath(w.dir), r.markReady(w, "\n"))
	}
	if err := r.discard(w); err != nil { // its files were never all checked out, so nothing has worked there
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

// add creates a worktree on its branch. It continues on a branch that exists already.
func (r *repository) add(ctx context.Context, w worktree, from string) error {
	tip, err := r.branchTip(ctx, w)
	if err != nil {
		return err
	}
	at := []string{"-b", w.branch(), r.path(w.dir), from}
	if tip != "" {
		at = []string{r.path(w.dir), w.branch()}
	}
	// Files are checked out afterwards, because git would run filters for them here.
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

// discard removes the remains of a worktree, and what would keep git from creating it. The
// branch stays.
func (r *repository) discard(w worktree) error {
	branchLock := filepath.Join(gitDir, "refs", "heads", w.branch()+".lock")
	for _, name := range []string{w.readyMark(), w.index(), w.dir, w.admin(), branchLock, w.dir + legacyMark} {
		if err := r.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// changesOf returns what the last worktree of a chain has that its parent does not have.
func (r *repository) changesOf(ctx context.Context, chain []worktree) (changes, error) {
	w := chain[len(chain)-1]
	known, err := r.exists(w.admin())
	if err != nil {
		return changes{}, err
	}
	if !known {
		return changes{}, w.forgottenError()
	}
	if err := r.checkPath(w.dir); err != nil {
		return changes{}, err
	}
	head, err := r.head(ctx, chain)
	if err != nil {
		return changes{}, err
	}
	var s changes
	if s.commits, err = r.countCommits(ctx, chain, head); err != nil {
		return changes{}, err
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

// changesWithoutDir is changesOf for a worktree whose directory was removed. Its commits are still
// there, also if git has forgotten the worktree.
func (r *repository) changesWithoutDir(ctx context.Context, chain []worktree) (changes, error) {
	known, err := r.exists(chain[len(chain)-1].admin())
	if err != nil {
		return changes{}, err
	}
	var heads []string
	if known {
		head, err := r.head(ctx, chain)
		if err != nil {
			return changes{}, err
		}
		heads = append(heads, head)
	}
	commits, err := r.countCommits(ctx, chain, heads...)
	return changes{commits: commits, noDir: commits > 0}, err
}

// countCommits returns how many commits the branch of the last worktree of a chain and heads have
// that its parent does not have.
func (r *repository) countCommits(ctx context.Context, chain []worktree, heads ...string) (int, error) {
	parent, err := r.head(ctx, chain[:len(chain)-1])
	if err != nil {
		return 0, err
	}
	tip, err := r.branchTip(ctx, chain[len(chain)-1])
	if err != nil {
		return 0, err
	}
	if tip != "" {
		heads = append(heads, tip)
	}
	if len(heads) == 0 {
		return 0, nil
	}
	counted, err := r.runGit(ctx, append(append([]string{"rev-list", "--count"}, heads...), "--not", parent)...)
	if err != nil {
		return 0, err
	}
	commits, err := strconv.Atoi(counted)
	if err != nil {
		return 0, fmt.Errorf("counting commits: %w", err)
	}
	return commits, nil
}

// isChanged reports whether files, or the commits of submodules, differ from the commit of a
// worktree.
func (r *repository) isChanged(ctx context.Context, w worktree, head string) (bool, error) {
	// Submodules are excluded: git would enter them and run what they configure.
	changed, err := r.runIsolated(ctx, w, head, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=all", "--no-renames")
	if err != nil || changed != "" {
		return changed != "", err
	}
	// This does not apply when git looks only at the index.
	changed, err = r.runIsolated(ctx, w, head, "diff-index", "--cached", "--name-only", "--ignore-submodules=none", "--no-renames", head)
	return changed != "", err
}

// branchTip returns the commit of a worktree's branch; empty if there is no such branch.
func (r *repository) branchTip(ctx context.Context, w worktree) (string, error) {
	return r.runGit(ctx, "for-each-ref", "--format=%(objectname)", "refs/heads/"+w.branch())
}

// hasNested reports whether the worktree contains worktrees of other agents. It never blocks,
// whatever an agent has put there.
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

// markInUse takes the shared lock of a worktree. It is held until the file is closed or the
// process ends.
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

// removeIfEmpty removes a worktree and its branch, if owner was the last to enter it and it has
// no changes.
func (r *repository) removeIfEmpty(ctx context.Context, w worktree, owner string, look func() (changes, error)) error {
	if marked, err := r.read(w.readyMark()); err != nil || marked != owner {
		return nil //nolint:nilerr // it was removed, or has another owner
	}
	left, err := look()
	if err != nil || !left.isEmpty() {
		return err
	}
	if err := r.discard(w); err != nil {
		return err
	}
	tip, err := r.branchTip(ctx, w)
	if err != nil || tip == "" {
		return err
	}
	// This fails if the branch was moved meanwhile.
	_, err = r.runGit(ctx, "update-ref", "-d", "refs/heads/"+w.branch(), tip)
	return err
}

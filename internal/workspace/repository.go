package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
)

// gitDir is the repository of a session's directory, relative to it.
const gitDir = ".git"

// lockName is the lock file of a repository. It is not in a working tree, where git would
// remove it together with untracked files. Its name differs from git's own locks, because
// people remove those.
const lockName = gitDir + "/coppice-lock"

// branchPrefix is the prefix of the branches of worktrees.
const branchPrefix = "coppice/"

// repositoryPaths are the paths in a repository that git reads or writes by name. A link there
// would redirect git.
var repositoryPaths = []string{
	"", "HEAD", "config", "config.worktree", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/heads/coppice", "packed-refs",
	"worktrees", "logs", "logs/HEAD", "logs/refs", "logs/refs/heads", "logs/refs/heads/coppice", "info", "info/attributes", "info/exclude",
}

// repository is the locked repository of a session's directory. All worktrees of the session
// belong to it, including nested ones.
type repository struct {
	dir    string // absolute, without links
	root   *os.Root
	git    git
	unlock func() error
}

// openRepository locks the repository of a directory. The directory must contain its own
// repository.
func openRepository(ctx context.Context, dir string, g git) (_ *repository, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the workspace: %w", err)
	}
	r := &repository{dir: dir, root: root, git: g, unlock: func() error { return nil }}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	if err := r.check(); err != nil {
		return nil, err
	}
	file, err := r.lockFile(lockName)
	if err != nil {
		return nil, err
	}
	r.unlock = file.Close
	if err := lock(ctx, file); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *repository) close() error { return errors.Join(r.unlock(), r.root.Close()) }

// check returns an error if there is no repository, or part of it is outside of the directory.
func (r *repository) check() error {
	for _, name := range repositoryPaths {
		info, err := r.root.Lstat(filepath.Join(gitDir, name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == "":
			return fmt.Errorf("the workspace %s is no git repository", r.dir)
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("looking at the repository: %w", err)
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("the repository of the workspace %s is not all in it: %s is a symbolic link", r.dir, filepath.Join(gitDir, name))
		case name == "" && !info.IsDir():
			return fmt.Errorf("the repository of the workspace %s is elsewhere: it is itself a worktree or a submodule", r.dir)
		}
	}
	return nil
}

// makeIgnoredDir creates a directory that git ignores. No part of its path may be a link.
func (r *repository) makeIgnoredDir(dir string) error {
	if err := tool.MakeDirs(r.root, dir, newDirMode); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	if err := r.checkPath(dir); err != nil {
		return err
	}
	ignore := filepath.Join(dir, ".gitignore")
	if there, err := r.exists(ignore); err != nil || there {
		return err
	}
	return r.write(ignore, "*\n")
}

// checkPath returns an error if the path of a directory contains a link.
func (r *repository) checkPath(dir string) error {
	for part := dir; part != "."; part = filepath.Dir(part) {
		info, err := r.root.Lstat(part)
		if err != nil {
			return fmt.Errorf("looking at %s: %w", part, err)
		}
		if !info.IsDir() {
			return fmt.Errorf("%s is not a directory", part)
		}
	}
	return nil
}

// write replaces a small file atomically.
func (r *repository) write(name, text string) error {
	draft := filepath.Join(filepath.Dir(name), ".draft-"+rand.Text()) // others may do the same
	file, err := tool.MakeFile(r.root, draft, 0o600)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	if err := r.root.Rename(draft, name); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// lockFile opens a lock file, and creates it if necessary.
func (r *repository) lockFile(name string) (*os.File, error) {
	file, err := tool.MakeFile(r.root, name, 0o600)
	if errors.Is(err, fs.ErrExist) {
		file, err = r.root.OpenFile(name, os.O_RDWR|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the lock %s: %w", name, err)
	}
	return file, nil
}

// read returns the start of a small file, without surrounding white space.
func (r *repository) read(name string) (string, error) {
	text, err := r.readStart(name, 4<<10) //nolint:mnd // more than a name of git has
	return strings.TrimSpace(text), err
}

// maxExclude bounds the file in which a repository names what git ignores in it, in bytes.
const maxExclude = 1 << 20

// exclude returns what git ignores in the repository besides what its files say. A file that is too
// long counts as none, because a cut line could name more.
func (r *repository) exclude() (string, error) {
	text, err := r.readStart(gitDir+"/info/exclude", maxExclude+1)
	if errors.Is(err, fs.ErrNotExist) || len(text) > maxExclude {
		return "", nil
	}
	return text, err
}

// readStart returns the start of a file. It never blocks, whatever an agent has put there.
func (r *repository) readStart(name string, limit int64) (string, error) {
	file, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() { // it may be a pipe without a writer
		err = errors.New("not a file")
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("reading %s: %w", name, err), file.Close())
	}
	text, err := io.ReadAll(io.LimitReader(file, limit))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return string(text), nil
}

// remove removes a path recursively. A missing path is not an error.
func (r *repository) remove(name string) error {
	if err := sandbox.RemoveAll(r.root, name); err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

// exists reports whether there is something at a path. That it cannot be looked at, for example
// because too many files are open, is an error: taken for missing, it would be removed.
func (r *repository) exists(name string) (bool, error) {
	_, err := r.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", name, err)
	}
	return true, nil
}

func (r *repository) path(name string) string { return filepath.Join(r.dir, name) }

// runGit runs git on the repository.
func (r *repository) runGit(ctx context.Context, args ...string) (string, error) {
	return r.git.run(ctx, gitCall{in: r.dir, gitDir: r.path(gitDir), args: args})
}

// head returns the commit of the last worktree of a chain or, if the chain is empty, of the
// session's directory.
func (r *repository) head(ctx context.Context, chain []worktree) (string, error) {
	name := "HEAD"
	if len(chain) > 0 {
		// Git is not asked, because it would follow the files in the worktree.
		text, err := r.read(filepath.Join(chain[len(chain)-1].admin(), "HEAD"))
		if err != nil {
			return "", err
		}
		name = strings.TrimPrefix(text, "ref: ")
	}
	commit, err := r.runGit(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("the repository has no commit to start from: %w", err)
	}
	return commit, nil
}

// runIsolated runs git on the files of a worktree with a temporary git directory. That has the
// objects and the index of the worktree, but not the repository's configuration. So no filter
// that an attribute names can be a program.
func (r *repository) runIsolated(ctx context.Context, w worktree, commit string, args ...string) (string, error) {
	return r.runIsolatedTo(ctx, nil, w, commit, args...)
}

// runIsolatedTo is runIsolated with an optional writer for the output.
func (r *repository) runIsolatedTo(ctx context.Context, out io.Writer, w worktree, commit string, args ...string) (_ string, err error) {
	format, err := r.runGit(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return "", err
	}
	dir, err := r.makeGitDir(w, commit, format)
	if err != nil {
		return "", fmt.Errorf("making a directory for git: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files := r.path(w.dir)
	return r.git.run(ctx, gitCall{
		in: files, gitDir: dir, writable: []string{dir, r.path(gitDir)}, args: args, out: out,
		fatal: "could not open directory", // status leaves out what is in it
		env: []string{
			"GIT_WORK_TREE=" + files,
			"GIT_OBJECT_DIRECTORY=" + r.path(gitDir+"/objects"),
			"GIT_INDEX_FILE=" + r.path(w.admin()+"/index"),
		},
	})
}

// makeGitDir creates a git directory that is at a commit, ignores what the repository ignores, and
// contains nothing else. The owner of the worktree owns it, because git may run as that user.
func (r *repository) makeGitDir(w worktree, commit, format string) (dir string, err error) {
	made, err := os.MkdirTemp("", "coppice-git-")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	if dir, err = filepath.EvalSymlinks(made); err != nil { // the temporary directory itself may be reached through links
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	like, err := r.root.Lstat(w.dir)
	if err == nil {
		err = tool.ChownLike(dir, like)
	}
	var exclude string
	if err == nil {
		exclude, err = r.exclude()
	}
	for name, text := range map[string]string{
		"HEAD":         commit + "\n",
		"config":       "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = " + format + "\n",
		"info/exclude": exclude + "\n/" + tool.OutputDir + "/\n/" + tool.WorktreesDir + "/\n",
		"refs/.keep":   "",
		"objects/none": "",
	} {
		if err != nil {
			break
		}
		err = makeText(root, name, text)
	}
	return dir, err
}

// makeText creates a file and its missing parent directories.
func makeText(root *os.Root, name, text string) error {
	if err := tool.MakeDirs(root, filepath.Dir(name), newDirMode); err != nil {
		return err
	}
	file, err := tool.MakeFile(root, name, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// changes is what a worktree has that its parent does not have.
type changes struct {
	commits    int
	files      bool // uncommitted files
	submodules bool // submodules that are not empty
	nested     bool // nested worktrees
	inUse      bool // others work there
	noDir      bool // its directory was removed; set only if there are commits
}

func (s changes) isEmpty() bool { return s == changes{} }

func (s changes) String() string {
	var parts []string
	if s.commits == 1 {
		parts = append(parts, "1 commit")
	} else if s.commits > 1 {
		parts = append(parts, strconv.Itoa(s.commits)+" commits")
	}
	if s.files {
		parts = append(parts, "changes that are not committed")
	}
	if s.submodules {
		parts = append(parts, "submodules with files")
	}
	if s.nested {
		parts = append(parts, "worktrees of its own agents below it")
	}
	if s.inUse {
		parts = append(parts, "agents or commands that still work there")
	}
	if s.noDir {
		parts = append(parts, "the directory was removed")
	}
	return strings.Join(parts, ", ")
}

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

// gitDir is the repository of a session's directory, below it.
const gitDir = ".git"

// lockName is the file of a repository's lock. It is in no working tree: git would remove
// it there with all that it takes no notice of. Nor is its name one of git's own locks,
// which people remove.
const lockName = gitDir + "/coppice-lock"

// branches is what the names of the branches of worktrees begin with.
const branches = "coppice/"

// fixed are the parts of a repository that git writes to or reads by their names. A
// link there would lead it elsewhere.
var fixed = []string{
	"", "HEAD", "config", "config.worktree", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/heads/coppice", "packed-refs",
	"worktrees", "logs", "logs/HEAD", "logs/refs", "logs/refs/heads", "logs/refs/heads/coppice", "info", "info/attributes", "info/exclude",
}

// repository is that of a session's directory, locked. All worktrees of the session
// belong to it, also those below others.
type repository struct {
	dir    string // absolute, without links
	root   *os.Root
	git    git
	unlock func() error
}

// openRepository takes the lock of a directory that has a repository of its own.
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

// check refuses what is no repository, or one that is not all in the directory.
func (r *repository) check() error {
	for _, name := range fixed {
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

// ownDir makes a directory that git takes no notice of. No part of its path may be a
// link.
func (r *repository) ownDir(dir string) error {
	if err := tool.MakeDirs(r.root, dir, newDirMode); err != nil {
		return fmt.Errorf("making %s: %w", dir, err)
	}
	if err := r.plain(dir); err != nil {
		return err
	}
	if ignore := filepath.Join(dir, ".gitignore"); !r.is(ignore) {
		return r.write(ignore, "*\n")
	}
	return nil
}

// plain refuses a directory whose path has links in it.
func (r *repository) plain(dir string) error {
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

// write puts a small file in the place of what has the name. A crash leaves the one or
// the other.
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

// lockFile opens a file that stands for a lock, and makes it if need be.
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

// read reads the start of a small file, without white space around it. It never blocks,
// whatever an agent has put there.
func (r *repository) read(name string) (string, error) {
	file, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() { // somebody may hold a pipe open and never write
		err = errors.New("not a file")
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("reading %s: %w", name, err), file.Close())
	}
	text, err := io.ReadAll(io.LimitReader(file, 4<<10))
	if err = errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// remove removes what has a name, with all below it; that there is nothing is fine.
func (r *repository) remove(name string) error {
	if err := sandbox.RemoveAll(r.root, name); err != nil {
		return fmt.Errorf("removing %s: %w", name, err)
	}
	return nil
}

func (r *repository) is(name string) bool {
	_, err := r.root.Lstat(name)
	return err == nil
}

func (r *repository) path(name string) string { return filepath.Join(r.dir, name) }

// ask runs git on the repository.
func (r *repository) ask(ctx context.Context, args ...string) (string, error) {
	return r.git.run(ctx, gitCall{in: r.dir, gitDir: r.path(gitDir), args: args})
}

// head gives the commit that a worktree is at; without one, that the session's
// directory is at.
func (r *repository) head(ctx context.Context, chain []worktree) (string, error) {
	name := "HEAD"
	if len(chain) > 0 {
		// Not by way of git, which would go where the files beside it lead.
		text, err := r.read(filepath.Join(chain[len(chain)-1].admin(), "HEAD"))
		if err != nil {
			return "", err
		}
		name = strings.TrimPrefix(text, "ref: ")
	}
	commit, err := r.ask(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("the repository has no commit to start from: %w", err)
	}
	return commit, nil
}

// apart runs git on the files of a worktree with a git directory made for the call. It
// has the objects and the index of the worktree, and nothing of the repository's
// configuration, so no filter that an attribute names is anybody's program.
func (r *repository) apart(ctx context.Context, w worktree, commit string, args ...string) (string, error) {
	return r.apartTo(ctx, nil, w, commit, args...)
}

// apartTo is apart with what git says going to out, if that is not nil.
func (r *repository) apartTo(ctx context.Context, out io.Writer, w worktree, commit string, args ...string) (_ string, err error) {
	format, err := r.ask(ctx, "rev-parse", "--show-object-format")
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
		env: []string{
			"GIT_WORK_TREE=" + files,
			"GIT_OBJECT_DIRECTORY=" + r.path(gitDir+"/objects"),
			"GIT_INDEX_FILE=" + r.path(w.admin()+"/index"),
		},
	})
}

// makeGitDir makes a git directory that is at a commit and has nothing else. It is his who has
// the worktree, since git may run as him.
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
	if dir, err = filepath.EvalSymlinks(made); err != nil { // links lead to where the machine has such directories
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
	for name, text := range map[string]string{
		"HEAD":         commit + "\n",
		"config":       "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectFormat = " + format + "\n",
		"info/exclude": "/" + tool.OutputDir + "/\n/" + tool.WorktreesDir + "/\n",
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

// makeText makes a file with what is missing of its path.
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

// state is what a worktree holds that its parent has not.
type state struct {
	commits    int
	files      bool // that are not committed
	submodules bool // that are not empty
	below      bool // worktrees of its own
	used       bool // others work there
}

func (s state) empty() bool { return s == state{} }

func (s state) String() string {
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
	if s.below {
		parts = append(parts, "worktrees of its own agents below it")
	}
	if s.used {
		parts = append(parts, "agents or commands that still work there")
	}
	return strings.Join(parts, ", ")
}

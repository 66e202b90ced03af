package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"sync"
	"syscall"
	"time"
)

// pipes are the pipes from a command that runs as another user to writers of this process. os/exec
// would make them too, but as pipes of this user: the command could not open /dev/stdout and
// /dev/stderr, which lead to them.
type pipes struct {
	copying sync.WaitGroup
	from    []*os.File // our ends
	to      []*os.File // the command's ends, until it has its own copies
	mu      sync.Mutex
	err     error // of copying
}

// connectPipes replaces the writers of a command by pipes, and gives them to its user, as well as those
// that it already has. A reader for its input that is no file is left to os/exec. Without a user of its
// own it changes nothing.
func connectPipes(cmd *exec.Cmd, user *syscall.Credential) (p *pipes, err error) {
	p = &pipes{}
	if user == nil {
		return p, nil
	}
	stdout, stderr := cmd.Stdout, cmd.Stderr
	if cmd.Stdout, err = p.pipeTo(stdout); err == nil {
		cmd.Stderr = cmd.Stdout
		if !same(stdout, stderr) {
			cmd.Stderr, err = p.pipeTo(stderr)
		}
	}
	for _, standard := range []any{cmd.Stdin, cmd.Stdout, cmd.Stderr} {
		if file, ok := standard.(*os.File); ok && err == nil {
			err = givePipe(file, user)
		}
	}
	if err != nil {
		p.closeGiven()
		return nil, err
	}
	return p, nil
}

// same reports whether two writers are one. Together they get one pipe, so that the order of what is
// written stays.
func same(a, b io.Writer) bool {
	return a != nil && reflect.TypeOf(a).Comparable() && a == b
}

// pipeTo returns a pipe whose content is copied to a writer that is not a file.
func (p *pipes) pipeTo(w io.Writer) (io.Writer, error) {
	if _, ok := w.(*os.File); ok || w == nil {
		return w, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.from, p.to = append(p.from, from), append(p.to, to)
	p.copying.Go(func() {
		_, err := io.Copy(w, from)
		_ = from.Close() // nothing was written; a command that still writes ends
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = errors.Join(p.err, err)
	})
	return to, nil
}

// givePipe gives a file to a user if it is a pipe.
func givePipe(file *os.File, user *syscall.Credential) error {
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return err
	}
	if err = file.Chown(int(user.Uid), int(user.Gid)); errors.Is(err, fs.ErrPermission) {
		return nil // root without the capability; only these names don't work then
	}
	return err
}

// closeGiven closes the command's ends here.
func (p *pipes) closeGiven() {
	for _, file := range p.to {
		_ = file.Close() // nothing was written
	}
	p.to = nil
}

// wait waits until everything is copied. The command has ended, so that takes no time, unless a
// process of it can't be killed.
func (p *pipes) wait() error {
	late := time.AfterFunc(closeTimeout, func() {
		for _, file := range p.from {
			_ = file.Close() // it may be closed already; this only ends a copy that still waits
		}
	})
	defer late.Stop()
	p.copying.Wait()
	return p.err
}

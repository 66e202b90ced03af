package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/bench/services"
	"github.com/coppice-run/coppice/bench/system"
)

// stopTimeout is how long a system may take to stop.
const stopTimeout = 15 * time.Second

// instance is a running system with its databases.
type instance struct {
	setup    system.Setup
	closers  []func() error // cleanups, in reverse order
	services []int          // main processes of the databases
	cmd      *exec.Cmd
	in       *json.Encoder
	stdin    io.Closer
	replies  chan system.Reply // closed when the process closes its output
	log      *tail
}

// launch starts the databases of a system. exec starts its own process.
func launch(ctx context.Context, e entry, cluster *services.Cluster) (_ *instance, err error) {
	i := &instance{}
	defer func() {
		if err != nil {
			err = errors.Join(err, i.close())
		}
	}()
	dir, err := os.MkdirTemp("", "bench-"+e.name)
	if err != nil {
		return nil, err
	}
	i.setup.Dir = dir
	i.closers = append(i.closers, func() error { return os.RemoveAll(dir) })
	if e.redis {
		redis, err := services.StartRedis(ctx, dir)
		if err != nil {
			return nil, err
		}
		i.closers = append(i.closers, redis.Stop)
		i.services = append(i.services, redis.PID())
		i.setup.Redis = redis.Address
	}
	if e.postgres {
		postgres, err := cluster.Start(ctx)
		if err != nil {
			return nil, err
		}
		i.closers = append(i.closers, postgres.Stop)
		i.services = append(i.services, postgres.PID())
		i.setup.Postgres = postgres.URL()
	}
	return i, nil
}

// exec starts the process of the system. It is the leader of a process group, so that what it
// leaves behind can be found, and its temporary files are in the directory that close deletes.
func (i *instance) exec(binaries string, e entry) error {
	cmd := exec.Command(filepath.Join(binaries, e.program), e.args...)
	cmd.Dir, cmd.Env = i.setup.Dir, append(os.Environ(), "TMPDIR="+i.setup.Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	i.log = &tail{}
	cmd.Stderr = i.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", e.name, err)
	}
	i.cmd, i.stdin, i.in = cmd, stdin, json.NewEncoder(stdin)
	i.replies = make(chan system.Reply, 1)
	go i.read(stdout)
	i.closers = append(i.closers, i.end)
	return nil
}

// read forwards replies until the process closes its output.
func (i *instance) read(stdout io.Reader) {
	defer close(i.replies)
	for replies := json.NewDecoder(stdout); ; {
		var reply system.Reply
		if err := replies.Decode(&reply); err != nil {
			if !errors.Is(err, io.EOF) {
				i.replies <- system.Reply{Error: "reading its reply: " + err.Error()}
			}
			return
		}
		i.replies <- reply
	}
}

// ask sends a request and waits for the reply.
func (i *instance) ask(ctx context.Context, r system.Request) (system.Reply, error) {
	if err := i.in.Encode(r); err != nil {
		return system.Reply{}, fmt.Errorf("asking for %s: %w\n%s", r.Verb, err, i.log)
	}
	select {
	case reply, ok := <-i.replies:
		if !ok {
			return reply, fmt.Errorf("it ended during %s: %s", r.Verb, i.log)
		}
		if reply.Error != "" {
			return reply, fmt.Errorf("%s %d: %s\n%s", r.Verb, r.N, reply.Error, i.log)
		}
		return reply, nil
	case <-ctx.Done():
		return system.Reply{}, fmt.Errorf("%s %d: %w\n%s", r.Verb, r.N, context.Cause(ctx), i.log)
	}
}

// roots returns the processes from which all others of the system descend.
func (i *instance) roots() []int {
	if i.cmd == nil {
		return i.services
	}
	return append([]int{i.cmd.Process.Pid}, i.services...)
}

// end waits for the process of the system and all its descendants. There are no more requests,
// and the process gives up one that it is still busy with. What it leaves behind is killed.
func (i *instance) end() error {
	if err := i.stdin.Close(); err != nil {
		return err
	}
	if err := i.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	kill := time.AfterFunc(stopTimeout, i.killGroup)
	defer kill.Stop()
	for range i.replies {
		// drop replies that nothing waits for
	}
	var failed *exec.ExitError
	err := i.cmd.Wait()
	i.killGroup()
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	return nil
}

// killGroup kills the process of the system and its descendants. They may be gone already.
func (i *instance) killGroup() { _ = syscall.Kill(-i.cmd.Process.Pid, syscall.SIGKILL) }

// close releases everything.
func (i *instance) close() error {
	var errs []error
	for n := len(i.closers) - 1; n >= 0; n-- {
		errs = append(errs, i.closers[n]())
	}
	i.closers = nil
	return errors.Join(errs...)
}

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
	"time"

	"github.com/coppice-run/coppice/bench/process"
	"github.com/coppice-run/coppice/bench/services"
	"github.com/coppice-run/coppice/bench/system"
)

// stopTimeout is how long a system may take to end by itself.
const stopTimeout = 15 * time.Second

// instance is a system that runs, with its databases.
type instance struct {
	setup    system.Setup
	closers  []func() error // what to undo, last first
	services []int          // first processes of the databases
	cmd      *exec.Cmd
	in       *json.Encoder
	stdin    io.Closer
	replies  chan system.Reply // closed with the process's output
	log      *tail
}

// launch starts the databases of a system. Its own process is started by exec.
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

// exec starts the system's process.
func (i *instance) exec(binaries string, e entry) error {
	cmd := exec.Command(filepath.Join(binaries, e.program), e.args...)
	cmd.Dir = i.setup.Dir
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

// read passes on replies until the process closes its output.
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

// ask has the system do something.
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

// roots are the processes that all others of the system descend from.
func (i *instance) roots() []int {
	if i.cmd == nil {
		return i.services
	}
	return append([]int{i.cmd.Process.Pid}, i.services...)
}

// end waits for the system's process, whose requests have ended, and for all below it.
func (i *instance) end() error {
	if err := i.stdin.Close(); err != nil {
		return err
	}
	below, err := process.ProcessTree(i.cmd.Process.Pid)
	if err != nil {
		return err
	}
	kill := time.AfterFunc(stopTimeout, func() {
		for _, pid := range below {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill() // gone already: all the better
			}
		}
	})
	defer kill.Stop()
	for range i.replies {
		// What it says now, nobody has asked for.
	}
	var failed *exec.ExitError
	if err := i.cmd.Wait(); err != nil && !errors.As(err, &failed) {
		return err
	}
	return nil
}

// close undoes all.
func (i *instance) close() error {
	var errs []error
	for n := len(i.closers) - 1; n >= 0; n-- {
		errs = append(errs, i.closers[n]())
	}
	i.closers = nil
	return errors.Join(errs...)
}

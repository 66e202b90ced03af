package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// closeTimeout is how long the stages may take to kill the remaining processes, before they are
// killed themselves.
const closeTimeout = 10 * time.Second

// stageEnviron keeps the stages small. It contains nothing of the worker's. With the race
// detector, a stage would otherwise wait for a second at its end.
var stageEnviron = []string{"GOMAXPROCS=2", "GOGC=off", "GORACE=atexit_sleep_ms=0"}

// launch has what is needed to start a command.
type launch struct {
	spec    spec
	attr    *syscall.SysProcAttr
	files   []*os.File // additional files of the supervisor
	release func()
}

// close closes what the stages have received.
func (l *launch) close() {
	closeTrees(l.spec.Trees)
	for _, f := range l.files {
		f.Close()
	}
}

func (s *Sandbox) start(ctx context.Context, c Command, probe bool) (_ *Process, err error) {
	l, err := s.launch(ctx, c, probe)
	if err != nil {
		return nil, err
	}
	defer l.close()
	p, err := l.start(ctx, c)
	if err != nil {
		l.release()
		return nil, err
	}
	return p, nil
}

func (l *launch) start(ctx context.Context, c Command) (*Process, error) {
	specFile, err := writeSpec(l.spec)
	if err != nil {
		return nil, err
	}
	defer specFile.Close()
	lifeRead, life, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	defer lifeRead.Close()
	status, statusWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), life.Close())
	}
	defer status.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", marker, stageSupervise)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = "/", stageEnviron, l.attr
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.ExtraFiles = append([]*os.File{specFile, lifeRead, statusWrite}, l.files...)
	cmd.WaitDelay = closeTimeout
	out, err := connectPipes(cmd, l.attr.Credential)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), statusWrite.Close(), life.Close())
	}
	p := &Process{cmd: cmd, kill: once(life.Close), release: l.release, copied: out.wait}
	cmd.Cancel = p.kill
	err = cmd.Start()
	out.closeGiven() // the command has its own copies of these ends
	if err != nil {
		return nil, errors.Join(err, statusWrite.Close(), p.kill(), out.wait())
	}
	if err := errors.Join(statusWrite.Close(), readStatus(status)); err != nil {
		_ = p.kill()
		_ = errors.Join(cmd.Wait(), out.wait()) // the failure is known already
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return p, nil
}

// launch decides how to start a command.
func (s *Sandbox) launch(ctx context.Context, c Command, probe bool) (_ *launch, err error) {
	l := &launch{
		spec: spec{
			Way: s.way, Probe: probe, Argv: c.Argv, Network: c.Network,
			Confined: s.mode != Off, Landlock: s.on(LayerLandlock), Seccomp: s.on(LayerSeccomp), Limited: s.on(LayerLimits),
			Limits: s.limits, Home: home,
			TryDir: probe && s.way != wayNone && unix.Access(c.Dir, unix.W_OK) == nil,
		},
		attr:    &syscall.SysProcAttr{Setpgid: true},
		release: func() {},
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.spec.Trees, err = s.trees(c); err != nil {
		return nil, err
	}
	switch s.way {
	case wayNative:
		err = s.launchNative(l, c)
	case wayBubblewrap:
		l.spec.Wrap = wrapArgs(s.wrap, c.Network, l.spec.Trees, s.limits)
	case wayNone:
		err = s.launchPlain(ctx, l)
	}
	if err != nil {
		return nil, err
	}
	own := []string{"PATH=" + defaultPath, "LANG=C.UTF-8", "EMAIL=" + email}
	if l.spec.Way == wayNone && l.spec.Landlock {
		own = append(own, "GIT_CONFIG_NOSYSTEM=1") // git fails on a system configuration that it may not read
	}
	fixed := []string{"HOME=" + l.spec.Home, "PWD=" + c.Dir}
	if s.mode != Off {
		fixed = append(fixed, "TMPDIR="+tmpOf(l.spec))
	}
	l.spec.Env = withSafeDirectory(c.Dir, mergeEnviron(own, s.environ, fixed, c.Env))
	return l, nil
}

func tmpOf(s spec) string {
	if s.Way == wayNone {
		return s.Home
	}
	return "/tmp"
}

// launchNative makes the supervisor the first process of the namespaces, with the capabilities
// that it needs there. Files that only root can open are opened here; with other users the
// stages can open what the worker can.
func (s *Sandbox) launchNative(l *launch, c Command) error {
	who := owner{os.Getuid(), os.Getgid()}
	if who.uid == 0 {
		var err error
		if who, l.files, err = s.chooseUser(l.spec.Trees); err != nil {
			return err
		}
		l.attr.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}
		l.attr.GidMappingsEnableSetgroups = true
	}
	l.attr.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	if !c.Network {
		l.attr.Cloneflags |= unix.CLONE_NEWNET
	}
	l.attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: who.uid, HostID: who.uid, Size: 1}}
	l.attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: who.gid, HostID: who.gid, Size: 1}}
	l.attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	return nil
}

// launchPlain does what is possible without namespaces.
func (s *Sandbox) launchPlain(ctx context.Context, l *launch) error {
	dir, err := os.MkdirTemp("", "coppice-command-")
	if err != nil {
		return fmt.Errorf("making a home for the command: %w", err)
	}
	l.spec.Home = dir
	l.release = func() {
		if err := RemoveDir(dir); err != nil {
			s.log.WarnContext(ctx, "the home of a command is left behind", "error", err)
		}
	}
	if os.Getuid() != 0 || s.mode == Off {
		return nil
	}
	if of := l.spec.dir().of; of.uid != 0 {
		l.attr.Credential = &syscall.Credential{Uid: uint32(of.uid), Gid: uint32(of.gid)}
		if err := os.Chown(dir, of.uid, of.gid); err != nil {
			l.release()
			return fmt.Errorf("choosing a user for the command: %w", err)
		}
	}
	return nil
}

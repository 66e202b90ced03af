package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// stopTimeout is how long a process may take to stop.
const stopTimeout = 10 * time.Second

// Part is one of the processes of a site, and where it finds the others.
type Part struct {
	Role         Role
	Data         string // directory of the database
	Workspace    string // directory that agents work in
	Redis        string // its URL
	Orchestrator string // the socket on which the orchestrator listens, or that the worker takes for it
}

// Role is what a process is.
type Role string

// The roles.
const (
	RoleOrchestrator Role = "orchestrator"
	RoleWorker       Role = "worker"
)

// Config is what a site is made of.
type Config struct {
	Dir   string // for its sockets and its data: a path of less than 80 bytes
	Fault *Fault // nil: none
	// Start prepares a process that is a part of it, and ends when its standard input does.
	Start   func(Part) *exec.Cmd
	Connect func(target string) (*grpc.ClientConn, error)
}

// Site is an installation for one tree.
type Site struct {
	*Gate
	conn         *grpc.ClientConn
	redis        *dispatch.Embedded
	server       *grpc.Server
	serving      sync.WaitGroup
	orchestrator *process
	worker       *process
}

// Open starts an installation. The workspace that its agents work in is the directory
// "workspace" below the site's own.
func Open(c Config) (_ *Site, err error) {
	s := &Site{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	at := func(name string) string { return filepath.Join(c.Dir, name) }
	if s.redis, err = dispatch.OpenEmbedded(); err != nil {
		return nil, err
	}
	redis, err := net.Listen("unix", at("redis"))
	if err != nil {
		return nil, fmt.Errorf("listening for Redis: %w", err)
	}
	s.redis.ServeOn(redis)
	if s.conn, err = c.Connect("unix:" + at("orchestrator")); err != nil {
		return nil, err
	}
	gate, err := net.Listen("unix", at("gate"))
	if err != nil {
		return nil, fmt.Errorf("listening for the worker: %w", err)
	}
	s.Gate = newGate(pb.NewWorkerServiceClient(s.conn), c.Fault, s.inject)
	s.server = grpc.NewServer()
	pb.RegisterWorkerServiceServer(s.server, s.Gate)
	s.serving.Go(func() { _ = s.server.Serve(gate) }) // it ends with the site
	part := Part{
		Role: RoleOrchestrator, Data: at("data"), Workspace: at("workspace"),
		Redis: "unix://" + at("redis"), Orchestrator: at("orchestrator"),
	}
	if s.orchestrator, err = start(func() *exec.Cmd { return c.Start(part) }); err != nil {
		return nil, err
	}
	works := part
	works.Role, works.Orchestrator = RoleWorker, at("gate")
	s.worker, err = start(func() *exec.Cmd { return c.Start(works) })
	return s, err
}

// Conn is a client's connection to the orchestrator.
func (s *Site) Conn() *grpc.ClientConn { return s.conn }

// inject breaks what is not the gate's.
func (s *Site) inject(v Victim) {
	switch v {
	case Worker:
		s.worker.kill()
	case Orchestrator:
		s.orchestrator.kill()
	case Redis:
		s.redis.Client().FlushAll(context.Background())
	case Link: // the gate cuts it
	}
}

// Failed is closed when a process has ended by itself; Close says why.
func (s *Site) Failed() <-chan struct{} {
	failed := make(chan struct{})
	go func() {
		defer close(failed)
		select {
		case <-s.worker.ended:
		case <-s.orchestrator.ended:
		}
	}()
	return failed
}

// Close ends it, the worker first, and says what has ended by itself.
func (s *Site) Close() error {
	err := errors.Join(s.worker.stop(), s.orchestrator.stop())
	if s.server != nil {
		s.server.Stop()
		s.serving.Wait()
	}
	if s.conn != nil {
		err = errors.Join(err, s.conn.Close())
	}
	if s.redis != nil {
		err = errors.Join(err, s.redis.Close())
	}
	return err
}

// process is one that is started again when it is killed, until it is stopped.
type process struct {
	command func() *exec.Cmd

	mu       sync.Mutex
	running  *exec.Cmd
	input    io.Closer
	killed   bool // on purpose
	stopping bool

	exited chan struct{} // closed when the one that runs has ended
	ended  chan struct{} // closed when there is none any more
	err    error         // why, if it has ended by itself
}

func start(command func() *exec.Cmd) (*process, error) {
	p := &process{command: command, ended: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.spawn(); err != nil {
		close(p.ended)
		return p, err
	}
	go p.supervise()
	return p, nil
}

// spawn starts it; the lock is held.
func (p *process) spawn() error {
	cmd := p.command()
	input, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting a process: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting a process: %w", err)
	}
	p.running, p.input, p.killed, p.exited = cmd, input, false, make(chan struct{})
	return nil
}

// supervise starts it again as often as it is killed.
func (p *process) supervise() {
	defer close(p.ended)
	for {
		p.mu.Lock()
		running, gone := p.running, p.exited
		p.mu.Unlock()
		err := running.Wait()
		close(gone)
		if !p.restart(err) {
			return
		}
	}
}

// restart reports whether another one runs in the place of the one that has ended.
func (p *process) restart(ended error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.killed && !p.stopping:
		p.err = p.spawn()
		return p.err == nil
	case p.stopping && !p.killed:
		p.err = ended
	case !p.stopping:
		p.err = fmt.Errorf("%s ended by itself: %w", p.running.Path, errors.Join(ended, errUnexpectedExit))
	}
	return false
}

var errUnexpectedExit = errors.New("nobody has asked it to")

// kill kills it, and returns when it is gone.
func (p *process) kill() {
	p.mu.Lock()
	running, gone := p.running, p.exited
	p.killed = true
	err := running.Process.Kill()
	p.mu.Unlock()
	if err == nil {
		<-gone
	}
}

// stop ends it and waits.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.stopping = true
	if p.input != nil {
		_ = p.input.Close() // it has ended already then
	}
	running := p.running
	p.mu.Unlock()
	select {
	case <-p.ended:
		return p.err
	case <-time.After(stopTimeout):
	}
	err := running.Process.Kill()
	<-p.ended
	return errors.Join(fmt.Errorf("%s had to be killed", running.Path), err)
}

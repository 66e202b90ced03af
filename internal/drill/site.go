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

// Part describes a process of a site, and where it finds the others.
type Part struct {
	Role         Role
	Data         string // directory of the database
	Workspace    string // working directory of the agents
	Redis        string // URL of Redis
	Orchestrator string // socket of the orchestrator or, for the worker, of the gate
}

// Role is the role of a process.
type Role string

// The roles.
const (
	RoleOrchestrator Role = "orchestrator"
	RoleWorker       Role = "worker"
)

// Config configures a site.
type Config struct {
	Dir   string // for sockets and data; the path must have less than 80 bytes
	Fault *Fault // nil: no fault
	// Start prepares a process of the site. The process must end when its standard input is
	// closed.
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

// Open starts an installation. Its agents work in the subdirectory "workspace" of Config.Dir.
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

// Conn returns a client connection to the orchestrator.
func (s *Site) Conn() *grpc.ClientConn { return s.conn }

// inject breaks a victim, except links.
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

// Failed is closed when a process has ended unexpectedly. Close returns the reason.
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

// Close stops the site, the worker first, and returns the errors of processes that ended
// unexpectedly.
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

// process is a process that is restarted after it was killed, until it is stopped.
type process struct {
	command func() *exec.Cmd

	mu       sync.Mutex
	running  *exec.Cmd
	input    io.Closer
	killed   bool // by kill
	stopping bool

	exited chan struct{} // closed when the current process has exited
	ended  chan struct{} // closed when no process is left
	err    error         // the error, if it ended unexpectedly
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

// spawn starts the process. p.mu must be held.
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

// supervise restarts the process whenever it is killed.
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

// restart starts the process again if it was killed, and reports whether it runs.
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

// kill kills the process and waits until it has exited.
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

// stop stops the process and waits for it.
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

// Package services runs the databases that systems need: private servers on free
// ports, each with the settings of its package, in a directory that goes with it.
package services

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startPatience = time.Minute
	stopPatience  = 20 * time.Second
)

// Server is a running process that serves on a port.
type Server struct {
	cmd  *exec.Cmd
	port int
	end  syscall.Signal // ends it at once, with all that it has started
	log  sync.WaitGroup
}

// run starts a server and waits until it logs that it is ready.
func run(cmd *exec.Cmd, port int, ready string, end syscall.Signal) (*Server, error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{cmd: cmd, port: port, end: end}
	started := make(chan error, 1)
	s.log.Go(func() { watch(out, ready, started) })
	select {
	case err = <-started:
	case <-time.After(startPatience):
		err = errors.New("it does not get ready")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", cmd.Path, err), s.Stop())
	}
	return s, nil
}

// watch reads a log to its end, and says once that the server is ready, or what its
// last words were.
func watch(out io.Reader, ready string, started chan<- error) {
	var last string
	told := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		last = lines.Text()
		if !told && strings.Contains(last, ready) {
			started <- nil
			told = true
		}
	}
	if !told {
		started <- errors.New("it ended: " + last)
	}
}

// PID is the first process of the server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server at once; its data is not needed any more.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(s.end); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", s.cmd.Path, err)
	}
	kill := time.AfterFunc(stopPatience, func() { _ = s.cmd.Process.Kill() }) // gone already: all the better
	defer kill.Stop()
	s.log.Wait()
	var killed *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &killed) {
		return fmt.Errorf("waiting for %s: %w", s.cmd.Path, err)
	}
	return nil
}

// addr is where a server on this machine is reached.
func addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coppice-run/coppice/bench/system"
)

const (
	// binaryVariable names Restate's server.
	binaryVariable = "RESTATE_SERVER"
	// installed is where `make bench` has npm put it, seen from this program.
	installed = "../restate/node_modules/@restatedev/restate-server-*/bin/restate-server"

	startPatience = time.Minute
	probe         = 10 * time.Millisecond
)

// server is Restate's server with its default settings.
type server struct {
	cmd     *exec.Cmd
	ended   chan error
	admin   string // URLs
	ingress string
}

// binary finds the server.
func binary() (string, error) {
	if named := os.Getenv(binaryVariable); named != "" {
		return named, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(self), installed))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("no server of Restate: npm ci --ignore-scripts in bench/restate, or set %s", binaryVariable)
	}
	return found[0], nil
}

// printVersion has the server say what it is.
func printVersion() error {
	path, err := binary()
	if err != nil {
		return err
	}
	cmd := exec.Command(path, "--version")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// startServer runs a server on an empty directory until it answers.
func startServer(ctx context.Context, dir string) (*server, error) {
	path, err := binary()
	if err != nil {
		return nil, err
	}
	var ports [3]int
	for i := range ports {
		if ports[i], err = system.FreePort(); err != nil {
			return nil, err
		}
	}
	s := &server{
		cmd: exec.Command(path, "--listen-mode", "tcp", "--bind-ip", "127.0.0.1", "--bind-port", strconv.Itoa(ports[0]),
			"--base-dir", dir, "--no-logo"),
		ended: make(chan error, 1),
		admin: address(ports[1]), ingress: address(ports[2]),
	}
	s.cmd.Env = append(os.Environ(), "RESTATE_DISABLE_TELEMETRY=true", "RESTATE_LOG_FILTER=warn",
		"RESTATE_ADMIN__BIND_PORT="+strconv.Itoa(ports[1]), "RESTATE_INGRESS__BIND_PORT="+strconv.Itoa(ports[2]))
	s.cmd.Stdout, s.cmd.Stderr = os.Stderr, os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting Restate's server: %w", err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for _, url := range []string{s.admin + "/health", s.ingress + "/restate/health"} {
		if err := s.answers(ctx, url); err != nil {
			return nil, errors.Join(fmt.Errorf("waiting for Restate's server: %w", err), s.stop())
		}
	}
	return s, nil
}

// address is the URL of a port.
func address(port int) string { return fmt.Sprintf("http://127.0.0.1:%d", port) }

// answers waits until a URL is served.
func (s *server) answers(ctx context.Context, url string) error {
	again := time.NewTicker(probe)
	defer again.Stop()
	for {
		if request(ctx, http.MethodGet, url, nil) == nil {
			return nil
		}
		select {
		case <-again.C:
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// register tells the server where handlers are served.
func (s *server) register(ctx context.Context, handlers string) error {
	body, err := json.Marshal(map[string]string{"uri": handlers})
	if err != nil {
		return err
	}
	if err := request(ctx, http.MethodPost, s.admin+"/deployments", body); err != nil {
		return fmt.Errorf("registering handlers: %w", err)
	}
	return nil
}

func request(ctx context.Context, method, url string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode < http.StatusBadRequest {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	return errors.Join(fmt.Errorf("%s: %s", answer.Status, text), err)
}

// stop ends the server; its data is not needed any more.
func (s *server) stop() error {
	if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping Restate's server: %w", err)
	}
	var killed *exec.ExitError
	if err := <-s.ended; err != nil && !errors.As(err, &killed) {
		return fmt.Errorf("waiting for Restate's server: %w", err)
	}
	return nil
}

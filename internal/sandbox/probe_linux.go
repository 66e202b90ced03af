package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// probeTimeout is how long the test of a layer may take.
const probeTimeout = 30 * time.Second

// probe determines the available layers, by starting the stages with each of them. Usually all
// are available, and then one start is enough.
func (s *Sandbox) probe(c Config) error {
	if s.mode == Off {
		return nil
	}
	dir, err := c.probeDir()
	if err != nil {
		return err
	}
	names := []string{LayerNamespaces, LayerLandlock, LayerSeccomp, LayerLimits}
	ways := c.ways
	if ways == nil {
		ways = s.findWays()
	}
	details := map[string]string{LayerLandlock: landlockDetail()}
	if len(ways) > 0 && s.try(ways[0], names[1:], dir) == nil {
		s.recordLayers(ways[0], names, names, details)
		return nil
	}
	on, chosen := []string{}, wayNone
	for _, w := range ways {
		if err := s.try(w, nil, dir); err != nil {
			details[LayerNamespaces] += sep(details[LayerNamespaces]) + string(w) + ": " + err.Error()
			continue
		}
		on, chosen = append(on, LayerNamespaces), w
		break
	}
	if chosen == wayNone {
		// A failure without any layer says nothing about layers, but would disable all of them.
		if err := s.try(wayNone, nil, dir); err != nil {
			return fmt.Errorf("no command can be started in %s: %w", cmp.Or(dir, "a new directory"), err)
		}
	}
	for _, name := range names[1:] {
		if err := s.try(wayNone, []string{name}, dir); err != nil {
			details[name] = err.Error()
		} else {
			on = append(on, name)
		}
	}
	s.recordLayers(chosen, names, on, details)
	return nil
}

func sep(before string) string {
	if before == "" {
		return ""
	}
	return "; "
}

func (c Config) probeDir() (string, error) {
	if c.Workspace == "" {
		return "", nil
	}
	dir, err := realPath(c.Workspace)
	if err != nil {
		return "", fmt.Errorf("the workspace: %w", err)
	}
	if dir == "/" {
		return "", fmt.Errorf("the workspace: %w", errRoot)
	}
	return dir, nil
}

// findWays returns the possible ways to get namespaces, the best one first. Bubblewrap cannot
// map root to another user, and root needs no program to create namespaces.
func (s *Sandbox) findWays() []way {
	if os.Getuid() == 0 {
		return []way{wayNative}
	}
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return []way{wayNative}
	}
	s.wrap = []string{path}
	help, err := exec.Command(path, "--help").CombinedOutput()
	if err == nil && bytes.Contains(help, []byte("--disable-userns")) {
		s.wrap = append(s.wrap, "--disable-userns")
	}
	return []way{wayBubblewrap, wayNative}
}

// try starts the stages with some of the layers and without a command.
func (s *Sandbox) try(w way, names []string, dir string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	trial := &Sandbox{mode: s.mode, limits: s.limits, readable: s.readable, wrap: s.wrap, way: w, log: s.log}
	for _, name := range names {
		trial.layers = append(trial.layers, Layer{Name: name, On: true})
	}
	if dir == "" {
		made, err := os.MkdirTemp("", "coppice-sandbox-")
		if err != nil {
			return fmt.Errorf("making a directory to try it in: %w", err)
		}
		defer func() { err = errors.Join(err, os.Remove(made)) }()
		if dir, err = realPath(made); err != nil {
			return fmt.Errorf("making a directory to try it in: %w", err)
		}
	}
	said := &bytes.Buffer{} // a stage of ours writes one line
	p, err := trial.start(ctx, Command{Dir: dir, Stderr: said}, true)
	if err == nil {
		err = p.Wait()
	}
	if why := strings.TrimSpace(said.String()); err != nil && why != "" {
		err = errors.New(why)
	}
	return err
}

// recordLayers records the result of the probe.
func (s *Sandbox) recordLayers(w way, names, on []string, details map[string]string) {
	s.way = w
	for _, name := range names {
		l := Layer{Name: name, Detail: details[name]}
		for _, o := range on {
			l.On = l.On || o == name
		}
		if l.On && name == LayerNamespaces {
			l.Detail = string(w)
		}
		s.layers = append(s.layers, l)
	}
}

func (s *Sandbox) on(name string) bool {
	for _, l := range s.layers {
		if l.Name == name {
			return l.On
		}
	}
	return false
}

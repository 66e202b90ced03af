package own

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/bench/figures"
	"github.com/coppice-run/coppice/bench/installation"
	"github.com/coppice-run/coppice/bench/process"
)

// cpuTimes is the CPU time of an installation, by process.
type cpuTimes struct {
	names []string
	used  map[string]time.Duration
}

// cpuTimesOf returns the CPU times so far. Processes with the same role, such as several
// workers, are added up.
func cpuTimesOf(i *installation.Installation) (cpuTimes, error) {
	s := cpuTimes{used: map[string]time.Duration{}}
	for _, p := range i.Processes() {
		used, err := p.CPU()
		if err != nil {
			return s, err
		}
		part := part(p)
		if _, known := s.used[part]; !known {
			s.names = append(s.names, part)
		}
		s.used[part] += used
	}
	return s, nil
}

// part returns the role of a process: "worker-3" is a worker.
func part(p *process.Process) string {
	var n int
	if _, err := fmt.Sscanf(p.Name, "worker-%d", &n); err == nil {
		return "worker"
	}
	return p.Name
}

// reportSince reports the CPU time since an earlier measurement, per task.
func (l *Lab) reportSince(before cpuTimes, i *installation.Installation, name string, tasks int) error {
	now, err := cpuTimesOf(i)
	if err != nil {
		return err
	}
	var sum time.Duration
	for _, part := range now.names {
		used := now.used[part] - before.used[part]
		sum += used
		if err := l.Report(name+", "+part, "µs CPU/task", figures.Microseconds(used)/float64(tasks)); err != nil {
			return err
		}
	}
	return l.Report(name+", all", "µs CPU/task", figures.Microseconds(sum)/float64(tasks))
}

// sizes measures the cost of a task in trees of the same shape: a root with ten children, each
// with a tenth of the remaining tasks. Parents count as tasks.
func sizes(ctx context.Context, l *Lab) error {
	return l.withInstallation(ctx, installation.Options{}, func(i *installation.Installation) error {
		if _, err := i.Do(ctx, installation.Parent, "fan 100"); err != nil { // warm
			return err
		}
		const parents = 11
		for _, size := range []struct{ children, trees int }{{100, 20}, {1_000, 4}, {10_000, 1}} {
			before, err := cpuTimesOf(i)
			if err != nil {
				return err
			}
			started := time.Now()
			prompt := fmt.Sprintf("spread 10 parent fan %d", size.children/10)
			for range size.trees {
				s, err := i.Do(ctx, installation.Parent, prompt)
				if err != nil {
					return err
				}
				if err := i.CheckCounts(ctx, s, parents+size.children, 2*parents+size.children); err != nil {
					return err
				}
			}
			tasks := (parents + size.children) * size.trees
			name := fmt.Sprintf("tree of %d", size.children)
			err = errors.Join(
				l.Report(name, "tasks/s", float64(tasks)/time.Since(started).Seconds()),
				l.reportSince(before, i, name, tasks))
			if err != nil {
				return err
			}
		}
		return l.reportMemory(i, "resident after 16,000 children")
	})
}

// reportMemory reports the memory of each process.
func (l *Lab) reportMemory(i *installation.Installation, name string) error {
	sum := int64(0)
	for _, p := range i.Processes() {
		bytes, err := p.Memory()
		if err != nil {
			return err
		}
		sum += bytes
		if err := l.Report(name+", "+p.Name, "MB", megabytes(bytes)); err != nil {
			return err
		}
	}
	return l.Report(name+", all", "MB", megabytes(sum))
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

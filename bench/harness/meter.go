package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/bench/figures"
	"github.com/coppice-run/coppice/bench/process"
	"github.com/coppice-run/coppice/bench/system"
)

const (
	// requestTimeout guards against a system that hangs.
	requestTimeout = 2 * time.Minute

	// warmSpawns is the number of unmeasured sequential spawns; the other two bound the
	// measured ones.
	warmSpawns, minSpawns, maxSpawns = 10, 20, 999 // a parent may have 1,000 children, and the first is not measured
	// warmTasks is the number of unmeasured independent tasks; the other two bound the measured
	// ones.
	warmTasks, minTasks, maxTasks = 50, 100, 200_000
	// trials bounds the attempts to find the number of tasks for the target duration.
	trials = 8
	// smallFanOut is repeated, because one of them is too short to measure, and its time may
	// depend on chance.
	smallFanOut, smallFanOuts = 1000, 10
	// minP99Samples is how many latencies a p99 needs.
	minP99Samples = 100
)

// meter measures one running system.
type meter struct {
	config  Config
	system  string
	round   int
	on      *instance
	samples []Sample
	// number of children of all fan-outs
	children int
}

// all runs the workloads.
func (m *meter) all(ctx context.Context, e entry) error {
	if err := m.start(ctx, e); err != nil {
		return err
	}
	steps := []struct {
		workload Workload
		run      func(context.Context) error
	}{{Spawn, m.spawn}, {FanOut, m.fanOut}, {Memory, m.memory}, {Independent, m.independent}}
	for _, step := range steps {
		if !m.config.wants(step.workload) {
			continue
		}
		if err := step.run(ctx); err != nil {
			return err
		}
	}
	_, err := m.ask(ctx, system.Request{Verb: system.VerbStop})
	return err
}

func (m *meter) record(s Sample) {
	s.System, s.Round = m.system, m.round+1
	m.samples = append(m.samples, s)
}

func (m *meter) ask(ctx context.Context, r system.Request) (system.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return m.on.ask(ctx, r)
}

// start starts the system and waits for its first result.
func (m *meter) start(ctx context.Context, e entry) error {
	began := time.Now()
	if err := m.on.exec(m.config.Binaries, e); err != nil {
		return err
	}
	if _, err := m.ask(ctx, system.Request{Verb: system.VerbStart, Setup: m.on.setup}); err != nil {
		return err
	}
	if _, err := m.ask(ctx, system.Request{Verb: system.VerbIndependent, N: 1}); err != nil {
		return err
	}
	if m.config.wants(Cold) {
		m.record(Sample{Workload: Cold, N: 1, Seconds: time.Since(began).Seconds()})
	}
	return nil
}

func (m *meter) spawn(ctx context.Context) error {
	warm, err := m.ask(ctx, system.Request{Verb: system.VerbSpawn, N: warmSpawns})
	if err != nil {
		return err
	}
	n := min(max(m.config.tasksForTarget(warmSpawns, warm), minSpawns), maxSpawns)
	reply, err := m.ask(ctx, system.Request{Verb: system.VerbSpawn, N: n})
	if err != nil {
		return err
	}
	if len(reply.Latencies) != n {
		return fmt.Errorf("it tells %d latencies of %d children", len(reply.Latencies), n)
	}
	s := Sample{Workload: Spawn, N: n, Seconds: reply.Seconds, P50Millis: figures.Milliseconds(figures.Quantile(reply.Latencies, 0.50))}
	if n >= minP99Samples {
		s.P99Millis = figures.Milliseconds(figures.Quantile(reply.Latencies, 0.99))
	}
	m.record(s)
	return nil
}

// tasksForTarget returns how many tasks last about as long as Config.Target, given how long n
// took.
func (c Config) tasksForTarget(n int, took system.Reply) int {
	return int(float64(n) / took.Seconds * c.Target.Seconds())
}

func (m *meter) fanOut(ctx context.Context) error {
	var last Sample
	for _, n := range m.config.Sizes {
		if last.PerSecond > 0 && float64(n)/last.PerSecond > m.config.Patience.Seconds() {
			m.record(Sample{Workload: FanOut, N: n, Skipped: fmt.Sprintf("would last longer than %v", m.config.Patience)})
			continue
		}
		times := 1
		if n <= smallFanOut {
			times = smallFanOuts
		}
		for began := time.Now(); times > 0; times-- {
			var err error
			if last, err = m.measureCost(ctx, system.Request{Verb: system.VerbFanOut, N: n}, FanOut); err != nil {
				return err
			}
			m.children += n
			m.record(last)
			if time.Since(began) > m.config.Target {
				break
			}
		}
	}
	return nil
}

// measureCost sends a request and measures its cost.
func (m *meter) measureCost(ctx context.Context, r system.Request, w Workload) (Sample, error) {
	before, err := process.CPU(m.on.roots()...)
	if err != nil {
		return Sample{}, err
	}
	reply, err := m.ask(ctx, r)
	if err != nil {
		return Sample{}, err
	}
	after, err := process.CPU(m.on.roots()...)
	if err != nil {
		return Sample{}, err
	}
	return Sample{
		Workload: w, N: r.N, Seconds: reply.Seconds, PerSecond: float64(r.N) / reply.Seconds,
		CPUMicros: float64((after - before).Microseconds()) / float64(r.N),
	}, nil
}

func (m *meter) memory(context.Context) error {
	bytes, err := process.Memory(m.on.roots()...)
	if err != nil {
		return err
	}
	m.record(Sample{Workload: Memory, N: m.children, Bytes: bytes})
	return nil
}

// independent finds the number of tasks for the target duration, and measures that many. Few
// tasks do not predict the duration of many, so it increases the number until they take half of
// the target.
func (m *meter) independent(ctx context.Context) error {
	n := warmTasks
	for range trials {
		reply, err := m.ask(ctx, system.Request{Verb: system.VerbIndependent, N: n})
		if err != nil {
			return err
		}
		long := reply.Seconds >= m.config.Target.Seconds()/2
		if n = min(max(m.config.tasksForTarget(n, reply), minTasks), maxTasks); long || n == maxTasks {
			break
		}
	}
	s, err := m.measureCost(ctx, system.Request{Verb: system.VerbIndependent, N: n}, Independent)
	if err != nil {
		return err
	}
	m.record(s)
	return nil
}

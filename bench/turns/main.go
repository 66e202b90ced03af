// Command turns compares builds of our programs: an installation of each is up at the same
// time, and they are measured by turns, so that a slow minute of the machine strikes all.
//
//	go run ./turns --rounds 5 before/ after/
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-run/coppice/bench/installation"
)

// settings are the command-line options.
type settings struct {
	kind          installation.Kind
	slots, atOnce int
	rounds        int
	during        time.Duration
	ways          []string
	dirs          []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	s, err := read()
	if err != nil {
		return err
	}
	var sides []*build
	defer func() {
		for _, of := range sides {
			err = errors.Join(err, of.Stop())
		}
	}()
	for _, dir := range s.dirs {
		i, err := installation.Start(ctx, installation.Options{Kind: s.kind, Binaries: installation.Built(dir), Workers: 1, Slots: s.slots})
		if err != nil {
			return fmt.Errorf("starting %s: %w", dir, err)
		}
		sides = append(sides, &build{Installation: i, dir: dir, turns: map[string][]turn{}, pace: map[string]int{}})
	}
	for round := range s.rounds + 1 {
		if err := s.round(ctx, round, sides); err != nil {
			return err
		}
	}
	for _, way := range s.ways {
		for _, of := range sides {
			fmt.Println(summary(way, of, sides[0]))
		}
	}
	return nil
}

// read parses the command line.
func read() (settings, error) {
	var s settings
	kind := flag.String("installation", string(installation.Separate), fmt.Sprint("which of ", installation.Kinds()))
	all := strings.Join(slices.Sorted(maps.Keys(workloads)), ",")
	named := flag.String("ways", all, "what to measure, with commas between them")
	flag.IntVar(&s.slots, "slots", 100, "of the worker")
	flag.IntVar(&s.atOnce, "at-once", 100, "sessions that are open at once")
	flag.IntVar(&s.rounds, "rounds", 5, "how often each is measured, after a round that warms up")
	flag.DurationVar(&s.during, "turn", 2*time.Second, "how long a turn lasts, about")
	flag.Parse()
	s.kind, s.ways, s.dirs = installation.Kind(*kind), strings.Split(*named, ","), flag.Args()
	if len(s.dirs) == 0 {
		return s, errors.New("name the directories with the built programs")
	}
	if s.rounds < 1 {
		return s, fmt.Errorf("--rounds is %d, must be at least 1", s.rounds)
	}
	if !slices.Contains(installation.Kinds(), s.kind) {
		return s, fmt.Errorf("there is no installation %q; there are %q", s.kind, installation.Kinds())
	}
	for _, name := range s.ways {
		if workloads[name] == nil {
			return s, fmt.Errorf("there is no way %q", name)
		}
	}
	return s, nil
}

// round gives each build a turn with each workload, in a varying order. The first round warms
// up, and determines the number of tasks of a turn.
func (s *settings) round(ctx context.Context, round int, sides []*build) error {
	for _, way := range s.ways {
		for at := range sides {
			of := sides[(at+round)%len(sides)]
			t, err := of.measure(ctx, s, way)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", of.dir, way, err)
			}
			if round > 0 {
				of.turns[way] = append(of.turns[way], t)
				fmt.Fprintf(os.Stderr, "%d %s\n", round, t.line(way, of.dir))
			}
		}
	}
	return nil
}

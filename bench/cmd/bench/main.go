// bench measures Coppice beside its peers and prints a table.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/coppice-run/coppice/bench/harness"
)

type flags struct {
	Systems   []string      `help:"Systems to measure; see below."`
	Workloads []string      `help:"What to measure (all): ${workloads}."`
	Sizes     []int         `help:"Children of fan-outs, in rising order." default:"100,1000,10000"`
	Rounds    int           `help:"Times that everything is measured." default:"3"`
	Seed      uint64        `help:"Of the rounds' orders, to have those of an earlier run (the time)."`
	Patience  time.Duration `help:"A fan-out that would last longer is left out." default:"45s"`
	Target    time.Duration `help:"How long a workload of no fixed size lasts, about." default:"2s"`
	JSON      string        `name:"json" help:"File for the samples, one JSON object a line." type:"path"`
}

func main() {
	var f flags
	k := kong.Parse(&f, kong.Description("Measures Coppice beside its peers, on this machine and in one run. Systems:\n\n"+harness.Systems()),
		kong.Vars{"workloads": strings.Join(harness.Workloads(), ", ")})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.FatalIfErrorf(f.run(ctx))
}

func (f flags) run(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	config := harness.Config{
		Binaries: filepath.Dir(self), Systems: f.Systems, Workloads: f.Workloads, Sizes: f.Sizes,
		Rounds: f.Rounds, Seed: cmp.Or(f.Seed, uint64(time.Now().Unix())), Patience: f.Patience, Target: f.Target,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	if f.JSON != "" {
		file, err := os.Create(f.JSON)
		if err != nil {
			return fmt.Errorf("opening the file for samples: %w", err)
		}
		defer file.Close()
		config.Samples = file
	}
	setting := harness.Setting(ctx, config.Binaries)
	samples, err := harness.Run(ctx, config)
	fmt.Printf("%s, seed %d\n\n", setting, config.Seed)
	return errors.Join(err, harness.Table(os.Stdout, samples, f.Sizes), harness.Spreads(os.Stdout, samples, f.Sizes))
}

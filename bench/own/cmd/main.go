// Command own runs the measurements of Coppice alone. It writes a line of JSON for each figure
// as it is measured, and a Markdown table at the end.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/coppice-run/coppice/bench/installation"
	"github.com/coppice-run/coppice/bench/own"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	names := flag.String("workloads", "", "which to run, with commas between them; by default all")
	kinds := flag.String("installations", "embedded,separate", "which to run them on")
	binaries := flag.String("binaries", "", "directory of the built programs; by default they are built")
	repeat := flag.Int("repeat", 3, "how often to measure what takes little time")
	profiles := flag.String("profiles", "", "directory for profiles of the orchestrators' CPU; by default none are taken")
	flag.Parse()
	chosen, err := choose(*names)
	if err != nil {
		return err
	}
	var on []installation.Kind
	for name := range strings.SplitSeq(*kinds, ",") {
		if !slices.Contains(installation.Kinds(), installation.Kind(name)) {
			return fmt.Errorf("there is no installation %q; there are %q", name, installation.Kinds())
		}
		on = append(on, installation.Kind(name))
	}
	lab := own.Lab{Binaries: installation.Built(*binaries), Repeat: *repeat, Profiles: *profiles}
	if *binaries == "" {
		if lab.Binaries, err = installation.Build(ctx); err != nil {
			return err
		}
	}
	figures, err := own.Run(ctx, lab, chosen, on, os.Stdout)
	fmt.Println()
	return errors.Join(err, own.Table(os.Stdout, figures), lab.Binaries.Remove())
}

// choose returns workloads by name.
func choose(names string) ([]own.Workload, error) {
	all := own.Workloads()
	if names == "" {
		return all, nil
	}
	var chosen []own.Workload
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(all, func(w own.Workload) bool { return w.Name == name })
		if at < 0 {
			var known []string
			for _, w := range all {
				known = append(known, w.Name)
			}
			return nil, fmt.Errorf("there is no workload %q; there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, all[at])
	}
	return chosen, nil
}

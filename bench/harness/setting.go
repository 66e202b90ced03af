package harness

import (
	"bufio"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/bench/services"
)

// peers are the modules whose versions affect the figures, with their names.
var peers = map[string]string{
	"github.com/hibiken/asynq":                 "asynq",
	"github.com/riverqueue/river":              "River",
	"github.com/dbos-inc/dbos-transact-golang": "DBOS",
	"github.com/restatedev/sdk-go":             "Restate's SDK",
	"go.temporal.io/sdk":                       "Temporal's SDK",
	"go.temporal.io/server":                    "Temporal",
}

// Setting describes date, machine and versions of a run in one line. It omits what it cannot
// find out.
func Setting(ctx context.Context, binaries string) string {
	parts := []string{time.Now().UTC().Format("2006-01-02 15:04 MST"), fmt.Sprintf("%d × %s", runtime.NumCPU(), processor())}
	for _, command := range [][]string{
		{"uname", "-sr"}, services.PostgresVersion(), {"redis-server", "--version"},
		{filepath.Join(binaries, "restate"), "-version"},
	} {
		if out, err := exec.CommandContext(ctx, command[0], command[1:]...).Output(); err == nil {
			parts = append(parts, version(string(out)))
		}
	}
	// `make bench` writes it at build time, because the repository may have changed since.
	if commit, err := os.ReadFile(filepath.Join(binaries, "coppice-commit")); err == nil {
		parts = append(parts, "Coppice "+strings.TrimSpace(string(commit)))
	}
	parts = append(parts, runtime.Version())
	return strings.Join(append(parts, versions(binaries)...), ", ")
}

// processor returns the name of the first processor.
func processor() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, found := strings.CutPrefix(lines.Text(), "model name"); found {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

// version removes build details from a version line.
func version(line string) string {
	words := strings.Fields(line)
	line = strings.Join(words[:min(len(words), 3)], " ")
	if kernel, _, built := strings.Cut(line, "-"); built && strings.HasPrefix(line, "Linux ") {
		line = kernel
	}
	return strings.NewReplacer("postgres (PostgreSQL)", "PostgreSQL", " server v=", " ", "restate-server", "Restate").Replace(line)
}

// versions returns the versions of the peers, as the programs of the systems report them.
func versions(binaries string) []string {
	var found []string
	for _, e := range entries {
		info, err := buildinfo.ReadFile(filepath.Join(binaries, e.program))
		if err != nil {
			continue
		}
		for _, m := range info.Deps {
			name, peer := peers[m.Path]
			if version := name + " " + m.Version; peer && !slices.Contains(found, version) {
				found = append(found, version)
			}
		}
	}
	return found
}

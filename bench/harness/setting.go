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

// peers are the modules whose versions a figure depends on, with what they are called.
var peers = map[string]string{
	"github.com/hibiken/asynq":                 "asynq",
	"github.com/riverqueue/river":              "River",
	"github.com/dbos-inc/dbos-transact-golang": "DBOS",
	"github.com/restatedev/sdk-go":             "Restate's SDK",
	"go.temporal.io/sdk":                       "Temporal's SDK",
	"go.temporal.io/server":                    "Temporal",
}

// Setting says in one line when, where and of what a run is: what can't be found out is left
// out.
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
	// `make bench` notes it when it builds: the repository may be another one by now.
	if commit, err := os.ReadFile(filepath.Join(binaries, "coppice-commit")); err == nil {
		parts = append(parts, "Coppice "+strings.TrimSpace(string(commit)))
	}
	parts = append(parts, runtime.Version())
	return strings.Join(append(parts, versions(binaries)...), ", ")
}

// processor is the name of the first one.
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

// version leaves out what programs say of their build.
func version(line string) string {
	words := strings.Fields(line)
	line = strings.Join(words[:min(len(words), 3)], " ")
	if kernel, _, built := strings.Cut(line, "-"); built && strings.HasPrefix(line, "Linux ") {
		line = kernel
	}
	return strings.NewReplacer("postgres (PostgreSQL)", "PostgreSQL", " server v=", " ", "restate-server", "Restate").Replace(line)
}

// versions are those of the peers, as the programs of the systems say.
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

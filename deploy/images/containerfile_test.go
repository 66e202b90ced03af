// Package images_test holds the build files of the images against what they promise.
package images_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// stage is one image of the Containerfile.
type stage struct {
	from, name string
	lines      []string // instruction and arguments
}

// stages reads a Containerfile as far as it is used here.
func stages(t *testing.T) map[string]stage {
	t.Helper()
	data, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\\\n", " ")
	known := regexp.MustCompile(`^(ARG|FROM|COPY|USER|WORKDIR|EXPOSE|ENTRYPOINT|RUN) \S`)
	found := map[string]stage{}
	var now stage
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case !known.MatchString(line):
			t.Errorf("not understood: %s", line)
		}
		if from, ok := strings.CutPrefix(line, "FROM "); ok {
			words := strings.Fields(from)
			if len(words) != 3 || words[1] != "AS" {
				t.Fatalf("a stage without a name: %s", line)
			}
			now = stage{from: words[0], name: words[2]}
		} else {
			now.lines = append(now.lines, line)
		}
		if now.name != "" {
			found[now.name] = now
		}
	}
	return found
}

// last gives the arguments of the last instruction of a kind, in a stage or what it
// is from.
func last(all map[string]stage, name, instruction string) string {
	s, ok := all[name]
	if !ok {
		return ""
	}
	for _, line := range slices.Backward(s.lines) {
		if args, ok := strings.CutPrefix(line, instruction+" "); ok {
			return args
		}
	}
	return last(all, s.from, instruction)
}

func TestContainerfile(t *testing.T) {
	t.Parallel()
	all := stages(t)
	for target, program := range map[string]string{
		"orchestrator": "orchestrator", "worker": "worker", "worker-tools": "worker", "coppice": "coppice",
	} {
		if user := last(all, target, "USER"); user != "65532:65532" {
			t.Errorf("%s runs as %q", target, user)
		}
		if entry := last(all, target, "ENTRYPOINT"); entry != `["/usr/bin/`+program+`"]` {
			t.Errorf("%s starts %s", target, entry)
		}
		if copied := last(all, target, "COPY"); copied != "${TARGETARCH}/"+program+" /usr/bin/"+program {
			t.Errorf("%s copies %s", target, copied)
		}
		if !slices.Contains(all[target].lines, "ARG TARGETARCH") {
			t.Errorf("%s does not know its architecture", target)
		}
		if target == "worker-tools" {
			continue
		}
		if all[target].from != "base" || all["base"].from != "scratch" {
			t.Errorf("%s is from %s, and that from %s", target, all[target].from, all["base"].from)
		}
		for _, line := range all[target].lines {
			if strings.HasPrefix(line, "RUN ") {
				t.Errorf("%s runs something where there is nothing: %s", target, line)
			}
		}
	}
	for _, tool := range []string{"bash", "bubblewrap", "ca-certificates", "git"} {
		if run := last(all, "worker-tools", "RUN"); !slices.Contains(strings.Fields(run), tool) {
			t.Errorf("worker-tools has no %s: %s", tool, run)
		}
	}
	if len(all) != 5 {
		t.Errorf("%d stages; a new one needs a line here", len(all))
	}
}

package installation_test

import (
	"os"
	"testing"
	"time"

	"github.com/coppice-run/coppice/bench/installation"
)

// prompts is what the scenario knows, with how many tasks each makes and how many answers
// those have.
var prompts = map[string]struct {
	agent          string
	tasks, answers int
}{
	"answer":                  {installation.Child, 1, 1},
	"fan 20":                  {installation.Parent, 21, 22},
	"slow-fan 20 1ms":         {installation.Parent, 21, 22},
	"spread 3 parent fan 2":   {installation.Parent, 10, 14},
	"rounds 5":                {installation.Parent, 6, 11},
	"chain 3":                 {installation.Parent, 4, 7},
	"source 5":                {installation.Reader, 1, 6},
	"noise 5":                 {installation.Reader, 1, 6},
	"spread 2 parent chain 1": {installation.Parent, 5, 8},
}

func TestInstallations(t *testing.T) {
	binaries, err := installation.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := binaries.Remove(); err != nil {
			t.Error(err)
		}
	})
	for _, kind := range installation.Kinds() {
		t.Run(string(kind), func(t *testing.T) { testInstallation(t, kind, binaries) })
	}
}

// TestFailedBuildLeavesNothing: there is no such system to build for.
func TestFailedBuildLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("GOOS", "none")
	if _, err := installation.Build(t.Context()); err == nil {
		t.Error("programs of no system are built")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind are %v, %v", left, err)
	}
}

func testInstallation(t *testing.T, kind installation.Kind, binaries *installation.Binaries) {
	i, err := installation.Start(t.Context(), installation.Options{Kind: kind, Binaries: binaries, Workers: 2, Slots: 4, Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := i.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(i.Dir); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", i.Dir, err)
		}
	}()
	for prompt, want := range prompts {
		s, err := i.Do(t.Context(), want.agent, prompt)
		if err != nil {
			t.Fatalf("%s: %v", prompt, err)
		}
		if err := i.CheckCounts(t.Context(), s, want.tasks, want.answers); err != nil {
			t.Errorf("%s: %v", prompt, err)
		}
	}
	// Of the parent's two children neither answers, which it does not mind.
	s, err := i.Do(t.Context(), installation.Parent, "spread 2 child fail")
	if err != nil {
		t.Fatal(err)
	}
	if err := i.CheckCounts(t.Context(), s, 3, 4); err == nil {
		t.Error("children that have failed count as if they had ended well")
	}
	for _, p := range i.Processes() {
		// It is counted in steps of 10 ms: what has little to do needs more work for one.
		for cpu := time.Duration(0); cpu <= 0; {
			if cpu, err = p.CPU(); err != nil {
				t.Fatalf("the CPU that %s has used: %v", p.Name, err)
			}
			if _, err := i.Do(t.Context(), installation.Parent, "fan 20"); err != nil {
				t.Fatal(err)
			}
		}
		memory, err := p.Memory()
		if err != nil || memory <= 0 {
			t.Errorf("%s has %d bytes, %v", p.Name, memory, err)
		}
	}
	if kind == installation.Separate {
		testKill(t, i)
	}
}

// testKill loses a worker, and goes on with another.
func testKill(t *testing.T, i *installation.Installation) {
	for _, w := range i.Workers() {
		if err := w.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := i.StartWorker(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(i.Workers()); n != 1 {
		t.Errorf("%d workers run, want 1", n)
	}
	if _, err := i.Do(t.Context(), installation.Parent, "fan 3"); err != nil {
		t.Error(err)
	}
}

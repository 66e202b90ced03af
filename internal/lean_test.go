package internal_test

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLean: where a method is looked up by a name that the linker does not know, it keeps
// all exported methods of all types that can be reached. One such place makes the programs
// half as large again, on disk and in memory. The program that has everything is linked, and
// the linker tells of such places.
func TestLean(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a program is linked")
	}
	link := exec.Command("go", "build", "-tags", "grpcnotrace", "-ldflags=-dumpdep", "-o", filepath.Join(t.TempDir(), "coppice"), "../cmd/coppice")
	said, err := link.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Start(); err != nil {
		t.Fatal(err)
	}
	lines, edges := bufio.NewScanner(said), 0
	lines.Buffer(nil, 1<<20)
	places := map[string]bool{}
	for lines.Scan() {
		from, _, edge := strings.Cut(lines.Text(), " -> ")
		if edge {
			edges++
		}
		if place, found := strings.CutSuffix(from, " <ReflectMethod>"); found && !strings.HasPrefix(place, "reflect.") {
			places[place] = true
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	if err := link.Wait(); err != nil {
		t.Fatal(err)
	}
	if edges == 0 {
		t.Error("the linker told of nothing")
	}
	for place := range places {
		t.Errorf("%s looks a method up by its name", place)
	}
}

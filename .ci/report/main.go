// Command report reads what `go test -json` prints, and shows what a person wants
// of it: a line for each package as it ends, all that a failed test has printed,
// and at the end how many tests ran. It exits with 1 if one failed, if one was
// skipped, or if there were none.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	r := report{printed: map[test][]string{}, blamed: map[string]bool{}}
	if err := r.read(os.Stdin); err != nil {
		fmt.Println("reading the output of go test:", err)
		os.Exit(1)
	}
	if r.skipped > 0 {
		fmt.Printf("%d tests were skipped; none may be\n", r.skipped)
	}
	fmt.Printf("%d passed, %d failed\n", r.passed, r.failed)
	if r.failed > 0 || r.skipped > 0 || r.passed == 0 {
		os.Exit(1)
	}
}

// event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string // empty: the event is the package's
	Output  string
}

type test struct{ pkg, name string }

// report counts tests, and keeps what they print until they have ended.
type report struct {
	passed, failed, skipped int

	printed map[test][]string
	blamed  map[string]bool // packages with a failed test
}

func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// line takes one line of the input; what is no event was printed by make.
func (r *report) line(line string) {
	var e event
	if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
		fmt.Print(line)
		return
	}
	switch {
	case e.Action == "build-output":
		fmt.Print(e.Output)
	case e.Test == "":
		r.ofPackage(e)
	default:
		r.ofTest(e)
	}
}

func (r *report) ofTest(e event) {
	t := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.printed[t] = append(r.printed[t], e.Output)
		return
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.blamed[e.Package] = true
		r.show(t)
	case "skip":
		r.skipped++
		r.show(t)
	default:
		return
	}
	delete(r.printed, t)
}

// ofPackage counts a package that failed without a failed test, since it did not
// build or did not come to its end, as one failure.
func (r *report) ofPackage(e event) {
	switch e.Action {
	case "output":
		if e.Output != "PASS\n" {
			fmt.Print(e.Output)
		}
	case "fail":
		if !r.blamed[e.Package] {
			r.failed++
		}
		for t := range r.printed {
			if t.pkg == e.Package {
				r.show(t)
				delete(r.printed, t)
			}
		}
	}
}

func (r *report) show(t test) {
	fmt.Print(strings.Join(r.printed[t], ""))
}

package installation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc; it is the same on all Linux systems that Go
// knows.
const tick = time.Second / 100

// CPU is the processor time that the process has used so far, with all that it has
// started, whether they still run or have ended.
func (p *Process) CPU() (time.Duration, error) {
	var used time.Duration
	err := p.each(func(pid int) error {
		s, err := readStat(pid)
		if err == nil {
			used += s.cpu
		}
		return err
	})
	return used, err
}

// Memory is the process's proportional set size in bytes, with that of all that it
// has started: what several share counts once.
func (p *Process) Memory() (int64, error) {
	var sum int64
	err := p.each(func(pid int) error {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return err
		}
		for line := range bytes.Lines(text) {
			if fields := bytes.Fields(line); len(fields) == 3 && string(fields[0]) == "Pss:" {
				kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
				sum += kib << 10
				return err
			}
		}
		return errors.New("it has no Pss")
	})
	return sum, err
}

// each looks at the process and at all below it. One that ends meanwhile is passed
// over.
func (p *Process) each(look func(pid int) error) error {
	below, err := family(p.Pid())
	if err != nil {
		return err
	}
	for _, pid := range below {
		if err := look(pid); err != nil && (pid == p.Pid() || !isGone(pid)) {
			return fmt.Errorf("looking at process %d of %s: %w", pid, p.Name, err)
		}
	}
	return nil
}

func isGone(pid int) bool {
	_, err := os.Stat(fmt.Sprint("/proc/", pid))
	return errors.Is(err, os.ErrNotExist)
}

// family is a process with all below it.
func family(of int) ([]int, error) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil {
			return nil, err
		}
		s, err := readStat(pid)
		if err != nil {
			continue // it has ended meanwhile
		}
		children[s.parent] = append(children[s.parent], pid)
	}
	all := []int{of}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all, nil
}

// stat is of /proc/PID/stat what is needed here.
type stat struct {
	parent int
	cpu    time.Duration // of the process and of those that it has started and waited for
}

func readStat(pid int) (stat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	// The program's name is in parentheses and may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const parent, firstTime, lastTime = 1, 11, 14 // ppid; utime, stime, cutime, cstime
	if len(fields) <= lastTime {
		return stat{}, fmt.Errorf("process %d has %d fields", pid, len(fields))
	}
	var s stat
	if s.parent, err = strconv.Atoi(string(fields[parent])); err != nil {
		return stat{}, err
	}
	for _, f := range fields[firstTime : lastTime+1] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return stat{}, err
		}
		s.cpu += time.Duration(n) * tick
	}
	return s, nil
}

// Heap is what the orchestrator's Go objects take that are still in use, in bytes; the
// installation has to serve profiles.
func (i *Installation) Heap(ctx context.Context) (int64, error) {
	const line = "# HeapAlloc = "
	page, err := i.FetchProfile(ctx, i.orchestrator, "heap?gc=1&debug=1")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(page), line)
	if !found {
		return 0, errors.New("reading a profile: it does not say how large the heap is")
	}
	n, _, _ := strings.Cut(rest, "\n")
	return strconv.ParseInt(n, 10, 64)
}

// FetchProfile fetches a page below /debug/pprof/ of one of our processes.
func (i *Installation) FetchProfile(ctx context.Context, p *Process, page string) ([]byte, error) {
	address, ok := i.profiles[p.Name]
	if !ok {
		return nil, fmt.Errorf("fetching a profile: %s serves none", p.Name)
	}
	if err := await(ctx, p, func(ctx context.Context) error { return listens(ctx, address) }); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/"+page, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetching a profile: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetching a profile: %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}

package process

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of times in /proc/PID/stat, which Linux fixes for programs.
const tick = time.Second / 100

// stat is of a line of /proc/PID/stat what is needed here.
type stat struct {
	pid, parent int
	// cpu is the time of the process and of those children of it that have ended.
	cpu time.Duration
}

// processTree gives the processes below and with the roots, which have to be there.
func processTree(roots []int) ([]stat, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]stat{}
	all := map[int]stat{}
	for _, name := range names {
		line, err := os.ReadFile(name)
		if isGone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		all[p.pid] = p
		children[p.parent] = append(children[p.parent], p)
	}
	var found []stat
	for _, root := range roots {
		p, ok := all[root]
		if !ok {
			return nil, fmt.Errorf("there is no process %d", root)
		}
		found = append(found, p)
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found, nil
}

func parse(line []byte) (stat, error) {
	var p stat
	// The name of the program is in parentheses and may hold anything.
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return p, errors.New("it names no program")
	}
	pid, _, _ := strings.Cut(string(line), " ")
	fields := strings.Fields(string(line[end+1:]))
	// From the third field of proc(5) on: state, parent; the 14th to the 17th are
	// utime, stime, cutime, cstime.
	const parent, utime, cstime = 1, 11, 14
	if len(fields) <= cstime {
		return p, errors.New("it is too short")
	}
	var err error
	if p.pid, err = strconv.Atoi(pid); err != nil {
		return p, err
	}
	if p.parent, err = strconv.Atoi(fields[parent]); err != nil {
		return p, err
	}
	for _, field := range fields[utime : cstime+1] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return p, err
		}
		p.cpu += time.Duration(ticks) * tick
	}
	return p, nil
}

// ProcessTree gives the ids of processes and of all below them.
func ProcessTree(roots ...int) ([]int, error) {
	found, err := processTree(roots)
	pids := make([]int, len(found))
	for i, p := range found {
		pids[i] = p.pid
	}
	return pids, err
}

// CPU is the processor time that processes have used since they began, with all that they
// have started, whether it still runs or has ended.
func CPU(roots ...int) (time.Duration, error) {
	processes, err := processTree(roots)
	if err != nil {
		return 0, fmt.Errorf("adding up CPU time: %w", err)
	}
	var sum time.Duration
	for _, p := range processes {
		sum += p.cpu
	}
	return sum, nil
}

// Memory is that of processes and all below them, in bytes. What several share is counted
// once (PSS).
func Memory(roots ...int) (int64, error) {
	processes, err := processTree(roots)
	if err != nil {
		return 0, fmt.Errorf("adding up memory: %w", err)
	}
	var sum int64
	for _, p := range processes {
		n, err := proportional(p.pid)
		if isGone(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("adding up memory: %w", err)
		}
		sum += n
	}
	return sum, nil
}

// CPU is the processor time that the process has used so far, with all that it has started.
func (p *Process) CPU() (time.Duration, error) { return CPU(p.PID()) }

// Memory is the process's memory in bytes, with that of all that it has started.
func (p *Process) Memory() (int64, error) { return Memory(p.PID()) }

func proportional(pid int) (int64, error) {
	rollup, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer rollup.Close()
	lines := bufio.NewScanner(rollup)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "Pss:")
		if !ok {
			continue
		}
		kB, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		return kB << 10, err
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	return 0, syscall.ESRCH // a process that has ended has no memory
}

// isGone reports whether a process has ended while it was looked at.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

package harness

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

// process is a line of /proc/PID/stat.
type process struct {
	pid, parent int
	// cpu is the time of the process and of those children of it that have ended.
	cpu time.Duration
}

// family gives the processes below and with the roots.
func family(roots []int) ([]process, error) {
	names, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	all := map[int]process{}
	for _, name := range names {
		line, err := os.ReadFile(name)
		if gone(err) {
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
	var found []process
	for _, root := range roots {
		if p, ok := all[root]; ok {
			found = append(found, p)
		}
	}
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found, nil
}

func parse(stat []byte) (process, error) {
	var p process
	// The name of the program is in parentheses and may hold anything.
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return p, errors.New("it names no program")
	}
	pid, _, _ := strings.Cut(string(stat), " ")
	fields := strings.Fields(string(stat[end+1:]))
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

// cpuTime is what processes and all below them have used since they began.
func cpuTime(roots []int) (time.Duration, error) {
	processes, err := family(roots)
	if err != nil {
		return 0, fmt.Errorf("adding up CPU time: %w", err)
	}
	var sum time.Duration
	for _, p := range processes {
		sum += p.cpu
	}
	return sum, nil
}

// resident is the memory of processes and all below them, in bytes. What several
// share is counted once (PSS).
func resident(roots []int) (int64, error) {
	processes, err := family(roots)
	if err != nil {
		return 0, fmt.Errorf("adding up memory: %w", err)
	}
	var sum int64
	for _, p := range processes {
		n, err := proportional(p.pid)
		if gone(err) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("adding up memory: %w", err)
		}
		sum += n
	}
	return sum, nil
}

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

// gone reports whether a process has ended while it was looked at.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

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

// tick is the unit of times in /proc/PID/stat, which is fixed in Linux.
const tick = time.Second / 100

// stat has the needed fields of /proc/PID/stat.
type stat struct {
	pid, parent int
	// CPU time of the process and of its children that have ended
	cpu time.Duration
}

// processTree returns the roots and all their descendants. The roots must exist.
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
	// The name of the program is in parentheses and may contain anything.
	end := bytes.LastIndexByte(line, ')')
	if end < 0 {
		return p, errors.New("it names no program")
	}
	pid, _, _ := strings.Cut(string(line), " ")
	fields := strings.Fields(string(line[end+1:]))
	// Indexes from the third field of proc(5): state, parent; fields 14 to 17 are utime, stime,
	// cutime, cstime.
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

// CPU returns the CPU time of processes since their start, including all descendants, running
// or ended.
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

// Memory returns the memory of processes and all their descendants, in bytes. Shared memory is
// counted once (PSS).
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

// CPU returns the CPU time of the process so far, including its descendants.
func (p *Process) CPU() (time.Duration, error) { return CPU(p.PID()) }

// Memory returns the memory of the process and its descendants, in bytes.
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

// isGone reports whether an error means that the process has ended meanwhile.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

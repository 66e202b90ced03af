package auth

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// checkInterval is how long files are taken to be what they were.
const checkInterval = time.Second

// maxFileBytes bounds each file.
const maxFileBytes = 16 << 20

// reloader is something that is made of files, and anew when they change. They are
// looked at when it is asked for: that finds files that were written in place,
// renamed, or mounted anew behind a symbolic link, and needs nothing that runs.
//
// What can't be read or understood changes nothing, and is logged once: a file may
// be half written, or a key already be there and its certificate not yet.
type reloader[T any] struct {
	paths []string
	read  func(contents [][]byte) (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu           sync.Mutex
	checkedAt    time.Time
	lastContents [][]byte // what value was made of, or would have been but for complaint
	value        T
	lastError    string // what was last complained of
}

// newReloader reads files for the first time; what is wrong with them is an error then.
func newReloader[T any](log *slog.Logger, read func([][]byte) (T, error), paths ...string) (*reloader[T], error) {
	f := &reloader[T]{paths: paths, read: read, log: log, now: time.Now}
	contents, err := f.readAll()
	if err == nil {
		f.value, err = read(contents)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", strings.Join(paths, " and "), err)
	}
	f.lastContents, f.checkedAt = contents, f.now()
	return f, nil
}

// get gives what the files say.
func (f *reloader[T]) get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.checkedAt) < checkInterval {
		return f.value
	}
	f.checkedAt = now
	contents, err := f.readAll()
	if err != nil {
		f.logOnce(err)
		return f.value
	}
	if slices.EqualFunc(contents, f.lastContents, bytes.Equal) {
		return f.value
	}
	f.lastContents = contents
	value, err := f.read(contents)
	if err != nil {
		f.logOnce(err)
		return f.value
	}
	f.value, f.lastError = value, ""
	f.log.Info("files of credentials were read again", "files", f.paths)
	return f.value
}

func (f *reloader[T]) logOnce(err error) {
	if f.lastError != err.Error() {
		f.lastError = err.Error()
		f.log.Warn("files of credentials can't be read; what they said before still counts", "files", f.paths, "error", err)
	}
}

func (f *reloader[T]) readAll() ([][]byte, error) {
	var all [][]byte
	for _, path := range f.paths {
		data, err := readFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFileBytes)
	}
	return data, nil
}

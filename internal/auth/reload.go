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

// checkInterval is how long the files are assumed to be unchanged.
const checkInterval = time.Second

// maxFileBytes bounds each file.
const maxFileBytes = 16 << 20

// reloader holds a value that is parsed from files, and parses it again when they change. get
// checks the files, so no goroutine is needed. This detects files that were written in place,
// renamed, or mounted anew behind a symbolic link.
//
// If the files cannot be read or parsed, the value stays and the error is logged once. A file
// may be half written, or a key may have been replaced before its certificate.
type reloader[T any] struct {
	paths []string
	read  func(contents [][]byte) (T, error)
	log   *slog.Logger
	now   func() time.Time

	mu           sync.Mutex
	checkedAt    time.Time
	lastContents [][]byte // what value was parsed from, or the newer contents that could not be parsed
	invalid      bool     // they could not
	value        T
	lastError    string // the last logged error; empty if it has passed
}

// newReloader reads the files for the first time, and fails if they are invalid.
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

// get returns the current value.
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
		if !f.invalid {
			f.lastError = "" // a failure to read them has passed
		}
		return f.value
	}
	f.lastContents = contents
	value, err := f.read(contents)
	if f.invalid = err != nil; f.invalid {
		f.logOnce(err)
		return f.value
	}
	f.value, f.lastError = value, ""
	f.log.Info("the credential files were reloaded", "files", f.paths)
	return f.value
}

func (f *reloader[T]) logOnce(err error) {
	if f.lastError != err.Error() {
		f.lastError = err.Error()
		f.log.Warn("the credential files can't be read; the credentials that were read before stay valid", "files", f.paths, "error", err)
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

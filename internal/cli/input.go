package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	history "github.com/coppice-run/coppice/internal/transcript"
)

// Bounds of what is read, in bytes. They keep a mistake from taking all memory; what counts is
// what the orchestrator bounds, which is told with its answer.
const (
	maxText       = 16 << 20 // what an orchestrator takes of one request
	maxDefinition = 1 << 20
	maxTranscript = history.MaxLines
	maxBatchBytes = 256 << 20
)

// batchMostLines bounds the lines of a batch, each of which takes more memory than its bytes.
const maxBatchLines = 1_000_000

// opened gives what a file, or with - standard input, holds, until ctx ends: then reading fails
// with its cause. What still waits for more then is left behind, and ends with the process.
// Errors are as a person is to see them.
func (a *app) openInput(ctx context.Context, name string) io.ReadCloser {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		w.CloseWithError(a.copyInput(w, name))
	}()
	return r
}

// pour writes what a file, or standard input, holds.
func (a *app) copyInput(to io.Writer, name string) error {
	if name == "-" {
		if _, err := io.Copy(to, a.Stdin); err != nil {
			return fmt.Errorf("reading standard input: %w", err)
		}
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return usagef("%w", err)
	}
	defer file.Close()
	if _, err := io.Copy(to, file); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// file reads a file, or with - standard input, and refuses what is longer than so many bytes.
func (a *app) file(ctx context.Context, name, what string, most int) ([]byte, error) {
	from := a.openInput(ctx, name)
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > most:
		return nil, usagef("%s has more than %d bytes", what, most)
	}
	return data, nil
}

// lines gives take one line after another of a file, or with - of standard input, with its
// number. A line is valid until take returns.
func (a *app) lines(ctx context.Context, name string, take func(number int64, line []byte) error) error {
	from := a.openInput(ctx, name)
	defer from.Close()
	left := &io.LimitedReader{R: from, N: maxBatchBytes + 1}
	lines := bufio.NewScanner(left)
	lines.Buffer(nil, maxText)
	number := int64(0)
	for lines.Scan() {
		number++
		if left.N <= 0 || number > maxBatchLines {
			return usagef("there are more than %d lines, or %d bytes: make several batches of it", maxBatchLines, maxBatchBytes)
		}
		if err := take(number, lines.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return usagef("line %d has more than %d bytes", number+1, maxText)
	}
	return lines.Err()
}

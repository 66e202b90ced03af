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

// Bounds of what is read, in bytes. They keep a mistake from using all memory. The real limits are
// those of the orchestrator, which its answers report.
const (
	maxText       = 16 << 20 // the maximum of one request
	maxMessage    = 1 << 20  // what a session takes as one message
	maxDefinition = 1 << 20
	maxTranscript = history.MaxEncodedBytes
	maxBatchBytes = 256 << 20
)

// maxBatchLines bounds the lines of a batch, because each takes more memory than its bytes.
const maxBatchLines = 1_000_000

// openInput reads a file, or standard input for -, until ctx ends; then reading fails with the
// cause. A read that still blocks then is abandoned and ends with the process. Errors are ready to
// be shown.
func (a *app) openInput(ctx context.Context, name string) io.ReadCloser {
	r, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { w.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		w.CloseWithError(a.copyInput(w, name))
	}()
	return r
}

// copyInput writes the content of a file, or of standard input.
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

// file reads a file, or standard input for -, and refuses more than most bytes.
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

// lines calls handle with each line of a file, or of standard input for -, and its number. A line
// is valid until handle returns.
func (a *app) lines(ctx context.Context, name string, handle func(number int64, line []byte) error) error {
	from := a.openInput(ctx, name)
	defer from.Close()
	left := &io.LimitedReader{R: from, N: maxBatchBytes + 1}
	lines := bufio.NewScanner(left)
	lines.Buffer(nil, maxText)
	number := int64(0)
	for lines.Scan() {
		number++
		if left.N <= 0 || number > maxBatchLines {
			return usagef("the input has more than %d lines or %d bytes: split it into several batches", maxBatchLines, maxBatchBytes)
		}
		if err := handle(number, lines.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return usagef("line %d has more than %d bytes", number+1, maxText)
	}
	return lines.Err()
}

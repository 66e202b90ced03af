package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// silent is an input at which nothing ever comes; it tells when it is read.
type silent struct {
	once sync.Once
	read chan struct{}
}

func (s *silent) Read([]byte) (int, error) {
	s.once.Do(func() { close(s.read) })
	select {}
}

// TestReadingIsInterrupted, of all commands that read standard input.
func TestReadingIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"run -", "run --orchestrator 127.0.0.1:1 -", "batch", "batch -", "drill -", "agents put -", "import -", "send last -",
		"spawn last --agent explore -", "branch last -",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			in := &silent{read: make(chan struct{})}
			go func() {
				<-in.read
				interrupt()
			}()
			var said bytes.Buffer
			code := Main(ctx, Process{Args: strings.Fields(line), Stdin: in, Stdout: io.Discard, Stderr: &said})
			if code != exitInterrupted || said.String() != "coppice: interrupted\n" {
				t.Errorf("exit code %d: %s", code, &said)
			}
		})
	}
}

// TestAFileThatNobodyWritesTo can't be opened before somebody does, and that is interrupted too.
func TestAFileThatNobodyWritesTo(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for _, line := range []string{"batch " + name, "spawn last --agent explore --context-file " + name + " it"} {
		if code := Main(ctx, Process{Args: strings.Fields(line), Stdout: io.Discard, Stderr: io.Discard}); code != exitInterrupted {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
}

// flood is an input of the same text again and again.
type flood struct {
	text string
	left atomic.Int64 // bytes
}

func (f *flood) Read(p []byte) (n int, err error) {
	if f.left.Load() <= 0 {
		return 0, io.EOF
	}
	for n+len(f.text) <= len(p) {
		n += copy(p[n:], f.text)
	}
	f.left.Add(-int64(n))
	return n, nil
}

// TestReadingIsBounded: what is longer than any orchestrator takes is not read to its end.
func TestReadingIsBounded(t *testing.T) {
	t.Parallel()
	const beyond = 1 << 20 // what copying has in hand
	for line, test := range map[string]struct {
		text string
		most int64
		says string
	}{
		"send last -":  {"y", maxMessage, "the text has more than 1048576 bytes"},
		"agents put -": {"y", maxDefinition, "the definition has more than 1048576 bytes"},
		"import -":     {"y", maxTranscript, "the transcript has more than 33554432 bytes"},
		"batch":        {"y", maxText, "line 1 has more than 16777216 bytes"},
		"batch -":      {"\n", maxBatchLines, "the input has more than 1000000 lines or 268435456 bytes: split it into several batches"},
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			in := &flood{text: strings.Repeat(test.text, 1<<10)}
			in.left.Store(test.most + 2*beyond)
			var said bytes.Buffer
			code := Main(t.Context(), Process{
				Args: append(strings.Fields(line), "--orchestrator", "127.0.0.1:1"), Stdin: in, Stdout: io.Discard, Stderr: &said,
			})
			if want := fmt.Sprintf("coppice: %s\n", test.says); code != exitUsage || said.String() != want || in.left.Load() <= 0 {
				t.Errorf("exit code %d, %d bytes left: %s", code, in.left.Load(), &said)
			}
		})
	}
}

// TestContextIsAFile of a size that an orchestrator may take, and not what the prompt is read from.
func TestContextIsAFile(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxText+1)); err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		large: "--context-file " + large + " has more than 16777216 bytes",
		"-":   "--context-file: standard input is for the prompt; name a file",
	} {
		var said bytes.Buffer
		args := []string{"spawn", "last", "--orchestrator", "127.0.0.1:1", "--agent", "explore", "--context-file", name, "it"}
		code := Main(t.Context(), Process{Args: args, Stdin: strings.NewReader("it"), Stdout: io.Discard, Stderr: &said})
		if code != exitUsage || said.String() != "coppice: "+says+"\n" {
			t.Errorf("%s: exit code %d: %s", name, code, &said)
		}
	}
}

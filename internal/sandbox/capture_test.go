package sandbox

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestCapture(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		writes     []string
		head, tail string
		cut        int64
	}{
		{"nothing", nil, "", "", 0},
		{"less than the head", []string{"ab"}, "ab", "", 0},
		{"the head", []string{"abcd"}, "abcd", "", 0},
		{"into the tail", []string{"abcd", "e"}, "abcde", "", 0},
		{"all that is kept", []string{"abcdefg"}, "abcdefg", "", 0},
		{"one too many", []string{"abcdefgh"}, "abcd", "fgh", 1},
		{"one by one", strings.Split("abcdefghij", ""), "abcd", "hij", 3},
		{"far too many", []string{strings.Repeat("x", 1000) + "end"}, "xxxx", "end", 996},
		{"letters cut in two", []string{"abcé", "fghié"}, "abc\uFFFD", "i" + "é", 5 - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := NewCapture(CaptureConfig{HeadBytes: 4, TailBytes: 3})
			for _, w := range tt.writes {
				if n, err := c.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatalf("writing %q gives %d, %v", w, n, err)
				}
			}
			if head, tail, cut := c.Text(); head != tt.head || tail != tt.tail || cut != tt.cut {
				t.Errorf("kept %q and %q, %d cut, not %q and %q, %d", head, tail, cut, tt.head, tt.tail, tt.cut)
			}
		})
	}
}

// TestCaptureOfAnyWrites compares with what is plainly kept.
func TestCaptureOfAnyWrites(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		c := NewCapture(CaptureConfig{HeadBytes: 1 + r.IntN(9), TailBytes: 1 + r.IntN(9)})
		head, ring := c.headBytes, len(c.ring)
		var all []byte
		for range r.IntN(8) {
			p := make([]byte, r.IntN(12))
			for i := range p {
				p[i] = byte('a' + r.IntN(26))
			}
			all = append(all, p...)
			c.Write(p)
		}
		wantHead, wantTail := string(all), ""
		if len(all) > head+ring {
			wantHead, wantTail = string(all[:head]), string(all[len(all)-ring:])
		}
		if h, tail, cut := c.Text(); h != wantHead || tail != wantTail || int(cut) != max(0, len(all)-head-ring) {
			t.Fatalf("%q is kept as %q, %q, %d cut (head %d, tail %d)", all, h, tail, cut, head, ring)
		}
		if c.Total() != int64(len(all)) {
			t.Fatalf("%d bytes are counted as %d", len(all), c.Total())
		}
	}
}

func TestCaptureSpool(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for _, tt := range []struct {
		name  string
		spool *spool
		whole bool
		err   error
		kept  string
	}{
		{"all of it", &spool{}, true, nil, "0123456789"},
		{"a disk that is full", &spool{err: full}, false, full, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := NewCapture(CaptureConfig{Spool: tt.spool, SpoolBytes: 10})
			c.Write([]byte("01234"))
			c.Write([]byte("56789"))
			if whole, err := c.Spooled(); whole != tt.whole || !errors.Is(err, tt.err) {
				t.Errorf("the whole is kept: %t, %v", whole, err)
			}
			c.Write([]byte("x"))
			if whole, _ := c.Spooled(); whole || tt.spool.String() != tt.kept {
				t.Errorf("past its bound %q is kept, as if it were the whole: %t", tt.spool.String(), whole)
			}
			if c.Total() != 11 {
				t.Errorf("%d bytes are counted", c.Total())
			}
		})
	}
}

type spool struct {
	bytes.Buffer
	err error
}

func (s *spool) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	return s.Buffer.Write(p)
}

// floodBudget is what an endless output may cost in memory.
const floodBudget = 8 << 20

// TestFlood lets a command write as fast as it can. COPPICE_TEST_FLOOD says for how
// long; a second already writes a thousand times what may be kept.
// It is not parallel: it measures the memory of the whole process.
func TestFlood(t *testing.T) {
	span := time.Second
	if text := os.Getenv("COPPICE_TEST_FLOOD"); text != "" {
		var err error
		if span, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	file, err := os.Create(t.TempDir() + "/all")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	box, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	before := memory()
	c := NewCapture(CaptureConfig{Spool: file})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p, err := box.Start(ctx, Command{Argv: []string{"yes", "an endless output"}, Dir: dir, Stdout: c, Stderr: c})
	if err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(span, cancel).Stop()
	waited := make(chan error, 1)
	go func() { waited <- p.Wait() }()
	peak, tick := uint64(0), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for done := false; !done; {
		select {
		case err := <-waited:
			if err == nil {
				t.Error("it ended by itself")
			}
			done = true
		case <-tick.C:
		}
		peak = max(peak, memory())
	}
	head, tail, cut := c.Text()
	info, err := file.Stat()
	if err != nil || info.Size() > DefaultSpoolBytes {
		t.Errorf("the file has %d bytes, %v", info.Size(), err)
	}
	if !strings.HasPrefix(head, "an endless") || !utf8.ValidString(tail) || cut < 1<<20 {
		t.Errorf("of %d bytes %d were cut; kept are %q…", c.Total(), cut, head[:min(20, len(head))])
	}
	if cost := max(peak, before) - before; cost > floodBudget {
		t.Errorf("%d bytes of output cost %d bytes of memory", c.Total(), cost)
	} else {
		t.Logf("yes for %s: %d MiB of output, %d KiB of memory", span, c.Total()>>20, cost>>10)
	}
}

// memory is what the process has of the system for its heap and stacks.
func memory() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

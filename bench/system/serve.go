package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs a system's process: it does what standard input says until that ends,
// and exits.
func Main(s System) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	// What libraries print must not come between the replies.
	replies := os.Stdout
	os.Stdout = os.Stderr
	if err := Serve(ctx, s, os.Stdin, replies); err != nil {
		slog.ErrorContext(ctx, "serving workloads", slog.Any("error", err))
		os.Exit(1)
	}
}

// Serve answers requests until they end. What was started then, and was not asked to stop,
// since something failed, stops.
func Serve(ctx context.Context, s System, requests io.Reader, replies io.Writer) (err error) {
	in, out := json.NewDecoder(requests), json.NewEncoder(replies)
	started := false
	defer func() {
		if started {
			err = errors.Join(err, s.Stop(ctx))
		}
	}()
	for {
		var r Request
		err := in.Decode(&r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		reply := answer(ctx, s, r)
		started = r.Verb != VerbStop && (started || r.Verb == VerbStart && reply.Error == "")
		if err := out.Encode(reply); err != nil {
			return fmt.Errorf("writing a reply: %w", err)
		}
	}
}

func answer(ctx context.Context, s System, r Request) Reply {
	var reply Reply
	began := time.Now()
	err := do(ctx, s, r, &reply)
	reply.Seconds = time.Since(began).Seconds()
	if checked, ok := s.(Checked); ok && err == nil && (r.Verb == VerbFanOut || r.Verb == VerbSpawn) {
		err = checked.Check(ctx)
	}
	if err != nil {
		reply.Error = err.Error()
	}
	return reply
}

func do(ctx context.Context, s System, r Request, reply *Reply) error {
	switch r.Verb {
	case VerbStart:
		return s.Start(ctx, r.Setup)
	case VerbSpawn:
		latencies, err := s.Spawn(ctx, r.N)
		reply.Latencies = latencies
		return err
	case VerbFanOut:
		return s.FanOut(ctx, r.N)
	case VerbIndependent:
		return s.Independent(ctx, r.N)
	case VerbStop:
		return s.Stop(ctx)
	default:
		return fmt.Errorf("nobody knows how to %q", r.Verb)
	}
}

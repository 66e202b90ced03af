package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/provider"
)

type fakeLLMCommand struct {
	Listen   string  `default:"127.0.0.1:8089" placeholder:"HOST:PORT" help:"Address to serve on; port 0 picks a free one."`
	Scenario string  `placeholder:"FILE" help:"Scenario that plays the model; default: the built-in demo."`
	Rate     float64 `placeholder:"N" help:"Requests per second that are accepted; others get status 429. Default: no limit."`
	Trouble  float64 `placeholder:"SHARE" help:"Fraction of requests that fail, 0 to 1: errors, broken and truncated answers."`
	Seed     uint64  `default:"1" help:"Random seed of the faults."`
}

// Run serves until ctx ends.
func (f *fakeLLMCommand) Run(ctx context.Context, a *app) error {
	if inRange := f.Rate >= 0 && f.Trouble >= 0 && f.Trouble <= 1; !inRange { // NaN is not in range
		return usagef("--rate has to be 0 or more, and --trouble between 0 and 1")
	}
	if _, err := listenable(f.Listen); err != nil {
		return err
	}
	chosen, err := provider.Scripted(f.Scenario)
	if err != nil {
		return usagef("%w", err)
	}
	config := fakellm.Config{Model: chosen.Model, Rate: f.Rate}
	if f.Trouble > 0 {
		config.Fault = fakellm.RandomFaults(f.Trouble, f.Seed)
	}
	fake := fakellm.New(config)
	l, err := net.Listen("tcp", f.Listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := &http.Server{Handler: fake, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { server.Close() })() //nolint:errcheck // requests in progress should break
	if err := f.greet(a, l.Addr().String()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	if a.json {
		return nil
	}
	fmt.Fprintln(a.Stdout, countsText(fake.Counts()))
	return nil
}

// countsText says how many requests there were, and what became of them.
func countsText(n fakellm.Counts) string {
	return fmt.Sprintf("%d requests received, %d answered completely, %d rate limited", n.Accepted+n.Limited, n.Completed, n.Limited)
}

// greet says where it serves.
func (f *fakeLLMCommand) greet(a *app, address string) error {
	base := "http://" + address
	if !a.json {
		_, err := fmt.Fprintf(a.Stdout, "A fake of Anthropic's and OpenAI's APIs is serving on %s\n  ANTHROPIC_BASE_URL=%s\n  OPENAI_BASE_URL=%s/v1 COPPICE_MODEL=any\n",
			address, base, base)
		return err
	}
	line, err := json.Marshal(map[string]string{"listen": address, "anthropic_base_url": base, "openai_base_url": base + "/v1"})
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err = fmt.Fprintf(a.Stdout, "%s\n", line)
	return err
}

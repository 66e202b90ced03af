package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	endpoint "github.com/restatedev/sdk-go/server"
	"golang.org/x/sync/errgroup"

	"github.com/coppice-run/coppice/bench/system"
)

const (
	service         = "Bench"
	handlerChild    = "Child"
	handlerFanOut   = "FanOut"
	handlerOneByOne = "OneByOne"

	// callers is how many independent calls are under way at once.
	callers = 200
)

// engine is handlers and a client in this process, Restate's server below it.
type engine struct {
	server   *server
	handlers http.Server
	serving  chan error
	client   *ingress.Client
}

// Start implements system.System.
func (e *engine) Start(ctx context.Context, at system.Setup) error {
	bound := restate.NewService(service).
		Handler(handlerChild, restate.NewServiceHandler(child)).
		Handler(handlerFanOut, restate.NewServiceHandler(fanOut)).
		Handler(handlerOneByOne, restate.NewServiceHandler(oneByOne))
	handler, err := endpoint.NewRestate().Bind(bound).Handler()
	if err != nil {
		return fmt.Errorf("binding handlers: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	e.handlers.Handler = handler
	e.handlers.Protocols = new(http.Protocols)
	e.handlers.Protocols.SetUnencryptedHTTP2(true)
	e.serving = make(chan error, 1)
	go func() { e.serving <- e.handlers.Serve(listener) }()
	if e.server, err = startServer(ctx, at.Dir); err != nil {
		return err
	}
	if err := e.server.register(ctx, "http://"+listener.Addr().String()); err != nil {
		return err
	}
	e.client = ingress.NewClient(e.server.ingress, ingress.WithHttpClient(&http.Client{
		Transport: &http.Transport{MaxIdleConns: callers, MaxIdleConnsPerHost: callers},
	}))
	return nil
}

// child does nothing.
func child(restate.Context, restate.Void) (string, error) { return "done", nil }

// maxChildren of one parent: past it, parents have parents.
const maxChildren = 1000

// fanOut calls n children at once and waits for all.
func fanOut(ctx restate.Context, n int) (int, error) {
	if n > maxChildren {
		return spread(ctx, n)
	}
	running := make([]restate.ResponseFuture[string], n)
	for i := range running {
		running[i] = restate.Service[string](ctx, service, handlerChild).RequestFuture(restate.Void{})
	}
	for _, r := range running {
		if _, err := r.Response(); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// spread calls parents that share n children, and waits for all.
func spread(ctx restate.Context, n int) (int, error) {
	var running []restate.ResponseFuture[int]
	for left := n; left > 0; left -= maxChildren {
		running = append(running, restate.Service[int](ctx, service, handlerFanOut).RequestFuture(min(left, maxChildren)))
	}
	joined := 0
	for _, r := range running {
		children, err := r.Response()
		if err != nil {
			return 0, err
		}
		joined += children
	}
	return joined, nil
}

// oneByOne calls n children one after another. The times are those of its first
// execution: it is not replayed, since it is never idle for long.
func oneByOne(ctx restate.Context, n int) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, n)
	for range n {
		began := time.Now()
		if _, err := restate.Service[string](ctx, service, handlerChild).Request(restate.Void{}); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}

// Spawn implements system.System.
func (e *engine) Spawn(ctx context.Context, n int) ([]time.Duration, error) {
	return ingress.Service[int, []time.Duration](e.client, service, handlerOneByOne).Request(ctx, n)
}

// FanOut implements system.System.
func (e *engine) FanOut(ctx context.Context, n int) error {
	_, err := ingress.Service[int, int](e.client, service, handlerFanOut).Request(ctx, n)
	return err
}

// Independent implements system.System.
func (e *engine) Independent(ctx context.Context, n int) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(callers)
	for range n {
		all.Go(func() error {
			_, err := ingress.Service[restate.Void, string](e.client, service, handlerChild).Request(ctx, restate.Void{})
			return err
		})
	}
	return all.Wait()
}

// Stop implements system.System.
func (e *engine) Stop(context.Context) error {
	err := errors.Join(e.server.stop(), e.handlers.Close())
	if served := <-e.serving; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

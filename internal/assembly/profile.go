package assembly

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
)

// ServeProfiles serves the profiles of this process at /debug/pprof/ of host:port until stop is
// called. Profiles contain memory contents and cost time, so it accepts only loopback addresses. If
// listen is empty it serves nothing, and the process stops sampling its allocations.
func ServeProfiles(ctx context.Context, listen string, log *slog.Logger) (stop func(), err error) {
	if listen == "" {
		runtime.MemProfileRate = 0
		return func() {}, nil
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("serving profiles: %w", err)
	}
	if at, ok := l.Addr().(*net.TCPAddr); !ok || !at.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("serving profiles: %s can be reached from other machines; use 127.0.0.1", listen), l.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return servePage(ctx, "profiles", l, mux, log), nil
}

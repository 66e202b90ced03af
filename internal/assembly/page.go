package assembly

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// headerTimeout is how long the header of a request for a page may take to arrive.
const headerTimeout = 5 * time.Second

// servePage serves HTTP until stop is called, which waits neither for requests in progress nor for
// connections on which none has arrived.
func servePage(ctx context.Context, name string, l net.Listener, handler http.Handler, log *slog.Logger) (stop func()) {
	page := &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := page.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.ErrorContext(ctx, "serving a page failed", "page", name, "error", err)
		}
	}()
	log.InfoContext(ctx, "serving a page", "page", name, "listen", l.Addr().String())
	return func() {
		if err := page.Close(); err != nil {
			log.WarnContext(ctx, "closing a page failed", "page", name, "error", err)
		}
		<-done
	}
}

package assembly

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/redistest"
)

// TestAWrongRedisURLIsNotShown, not even a piece of it: it may be one of the password.
func TestAWrongRedisURLIsNotShown(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"redis://worker:geheim/aYb@host", "redis://worker:1234/geheim@host", "redis://worker:1234/a/geheim@host",
		"redis://worker:geheim#aYb@host", "redis://worker:1234#geheim@host", "redis://worker:1234?geheim@host",
		"redis://worker:%zzgeheim@host", "redis://worker:ge heim@h ost", "geheim://host", "host=h password=geheim",
	} {
		client, err := OpenRedis(url)
		switch {
		case err == nil:
			t.Errorf("%s is a URL of %s", url, client.Options().Addr)
			_ = client.Close()
		case strings.Contains(err.Error(), "geheim") || strings.Contains(err.Error(), "aYb"):
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"redis://worker:ge%2Fhe%23im@host:1/2?protocol=3", "unix:///run/redis.sock", "rediss://host"} {
		client, err := OpenRedis(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEachOutageOfRedisIsLogged, when it begins and when it is over, also after the start.
func TestEachOutageOfRedisIsLogged(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := OpenRedis("redis://" + server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watchRedis(ctx, client, slog.New(slog.NewTextHandler(lineWriter(lines), nil)))
	}()
	for range 2 {
		server.Kill()
		if line := <-lines; !strings.Contains(line, "level=WARN msg=\"Redis can't be reached;") {
			t.Errorf("the begin of an outage is logged as %s", line)
		}
		server.Restart()
		if line := <-lines; !strings.Contains(line, "level=INFO msg=\"Redis can be reached again\"") {
			t.Errorf("its end is logged as %s", line)
		}
	}
	stop()
	<-ended
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if len(lines) > 0 {
		t.Errorf("%s is logged too", <-lines)
	}
}

// lineWriter passes each line on.
type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

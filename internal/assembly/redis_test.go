package assembly

import (
	"strings"
	"testing"
	"time"
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

// TestTheTimeoutsOfARedisURL, without which those of this program count.
func TestTheTimeoutsOfARedisURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]time.Duration{
		"redis://host": {redisDialTimeout, redisWriteTimeout},
		"redis://host?dial_timeout=9s&write_timeout=8s": {9 * time.Second, 8 * time.Second},
	} {
		client, err := OpenRedis(url)
		if err != nil {
			t.Fatal(err)
		}
		if o := client.Options(); o.DialTimeout != want[0] || o.WriteTimeout != want[1] {
			t.Errorf("%s: %s to connect, %s to write", url, o.DialTimeout, o.WriteTimeout)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

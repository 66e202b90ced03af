package callback

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func caller(t *testing.T, c Config) *Caller {
	t.Helper()
	caller, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return caller
}

func TestCall(t *testing.T) {
	t.Parallel()
	var got *http.Request // of /ended alone: the handler of a call given up may still run beside the next one's
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		switch r.URL.Path {
		case "/ended":
			got, body = r, string(data)
		case "/down":
			http.Error(w, "down\xff", http.StatusServiceUnavailable)
		case "/elsewhere":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case "/latin1":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, "HTTP/1.1 500 Erreur non g\xe9r\xe9e\r\nContent-Length: 0\r\n\r\n"); err != nil {
				t.Error(err)
			}
		case "/hangs":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	here := []string{"127.0.0.1"}
	c := caller(t, Config{Hosts: here, Secret: "s3cret"})
	if err := c.Call(t.Context(), server.URL+"/ended", "a/b/1", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	at, sum, _ := strings.Cut(strings.TrimPrefix(got.Header.Get(SignatureHeader), "t="), ",v1=")
	mac := hmac.New(sha256.New, []byte("s3cret"))
	mac.Write([]byte(at + "." + body))
	if body != `{"a":1}` || got.Header.Get(KeyHeader) != "a/b/1" || sum != hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("got %s with %v", body, got.Header)
	}
	for path, want := range map[string]string{
		"/down": "HTTP 503 Service Unavailable: down\uFFFD", "/elsewhere": "HTTP 302 Found",
		"/latin1": "HTTP 500 Erreur non g\uFFFDr\uFFFDe", "/hangs": "context deadline exceeded",
	} {
		c := c
		if path == "/hangs" {
			c = caller(t, Config{Hosts: here, Timeout: 100 * time.Millisecond})
		}
		err := c.Call(t.Context(), server.URL+path, "k", nil)
		if err == nil || errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), want) || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: %q, want %s", path, err, want)
		}
	}
}

// TestEndlessAnswer: the status says whether a call has succeeded, whatever follows it.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	if err := caller(t, Config{Hosts: []string{"127.0.0.1"}}).Call(t.Context(), server.URL, "k", nil); err != nil {
		t.Errorf("a call that succeeded: %v", err)
	}
	c := caller(t, Config{Hosts: []string{"127.0.0.1"}, Timeout: 100 * time.Millisecond})
	if err := c.Call(t.Context(), server.URL+"/down", "k", nil); err == nil || !strings.Contains(err.Error(), "HTTP 503") {
		t.Errorf("a call that failed: %v", err)
	}
}

// TestForbidden: nobody is called who is not allowed, nor is a private address by
// another name.
func TestForbidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hosts []string
		url   string
	}{
		{nil, "https://hooks.example.com/"},
		{[]string{"hooks.example.com"}, "https://evil.example.com/"},
		{[]string{"*.example.com"}, "https://example.com.evil.net/"},
		{[]string{"*"}, "http://localhost:9/"},
		{[]string{"*"}, "http://127.0.0.1:9/"},
		{[]string{"*"}, "http://[::1]:9/"},
		{[]string{"*"}, "http://[::ffff:127.0.0.1]:9/"},
		{[]string{"*"}, "http://10.1.2.3/"},
		{[]string{"*"}, "http://169.254.169.254/latest"},
		{[]string{"*"}, "http://100.64.0.1/"},
		{[]string{"*"}, "http://0.0.0.0/"},
		{[]string{"*"}, "http://[fd00::1]/"},
		{[]string{"*"}, "http://[64:ff9b::7f00:1]/"},
		{[]string{"*"}, "ftp://hooks.example.com/"},
		{[]string{"*"}, "http:///x"},
	} {
		if err := caller(t, Config{Hosts: c.hosts}).Call(t.Context(), c.url, "k", nil); !errors.Is(err, ErrForbidden) {
			t.Errorf("%s with %q: %v", c.url, c.hosts, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := caller(t, Config{Hosts: []string{"LOCALHOST"}}).Call(ctx, "http://localhost.:9/", "k", nil); errors.Is(err, ErrForbidden) {
		t.Errorf("allowed by its full name: %v", err)
	}
	for _, bad := range []Config{{Hosts: []string{"["}}, {Hosts: []string{""}}, {Hosts: []string{"https://x"}}, {Hosts: []string{"x", " y"}}, {MaxTries: -1}, {Timeout: -1}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	c := caller(t, Config{})
	for try, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 3: 4 * time.Second, 9: 256 * time.Second, 10: maxRetryPause, 1000: maxRetryPause} {
		for range 100 {
			if got := c.RetryDelay(try); got < want/2 || got > want*3/2 {
				t.Fatalf("after try %d: %s", try, got)
			}
		}
	}
}

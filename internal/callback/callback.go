// Package callback calls URLs when runs end and when calls ask for approval. The URLs come from
// definitions and from requests for sessions and tasks, which an untrusted person may have written.
// So a call goes only to hosts that the operator allows. Unless the host is allowed by its full
// name, it must not resolve to a private address.
package callback

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/outbound"
)

// Config configures a [Caller].
type Config struct {
	Hosts    []string      // globs of allowed hosts; empty: no calls
	Secret   string        // signs the calls; empty: no signature
	MaxTries int           // 0: DefaultMaxTries
	Timeout  time.Duration // of one call; 0: DefaultTimeout
}

// Defaults.
const (
	DefaultMaxTries = 10
	DefaultTimeout  = 10 * time.Second
)

// The pauses between tries double from minRetryPause to maxRetryPause. Each is randomised by up
// to half.
const (
	minRetryPause = time.Second
	maxRetryPause = 5 * time.Minute
)

// maxAnswer is how many bytes of a failed response are read.
const maxAnswer = 1 << 10

// Headers of a call.
const (
	// KeyHeader is the same for all tries of a call, and unique to the call.
	KeyHeader = "Idempotency-Key"
	// SignatureHeader is "t=SECONDS,v1=HEX": the HMAC-SHA256 of "SECONDS.BODY".
	SignatureHeader = "Coppice-Signature"
)

// ErrForbidden reports that a URL may not be called. Retrying does not help.
var ErrForbidden = outbound.ErrForbidden

// Caller calls URLs. It is safe for concurrent use.
type Caller struct {
	Config
	now func() time.Time
}

// New checks the configuration and applies its defaults.
func New(c Config) (*Caller, error) {
	for _, glob := range c.Hosts {
		if _, err := path.Match(glob, ""); err != nil || glob == "" || strings.ContainsAny(glob, "/: ") && net.ParseIP(glob) == nil {
			return nil, fmt.Errorf("callback hosts: %q is no glob of hosts, such as hooks.example.com or *.example.com", glob)
		}
	}
	if c.MaxTries < 0 || c.Timeout < 0 {
		return nil, errors.New("callbacks: the bound of tries and the timeout must not be negative")
	}
	if c.MaxTries == 0 {
		c.MaxTries = DefaultMaxTries
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return &Caller{Config: c, now: time.Now}, nil
}

// RetryDelay returns a random pause after a try, counted from 1.
func (*Caller) RetryDelay(try int) time.Duration {
	wait := minRetryPause << min(max(try-1, 0), 16)
	wait = min(wait, maxRetryPause)
	return wait/2 + rand.N(wait)
}

// Call posts a body to a URL. It returns nil if the response has a 2xx status, and ErrForbidden
// if the URL may not be called. The error text is always valid UTF-8, whatever the response
// contains.
func (c *Caller) Call(ctx context.Context, target, key string, body []byte) error {
	explicit, err := c.allowed(target)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "coppice-callback")
	req.Header.Set(KeyHeader, key)
	if c.Secret != "" {
		req.Header.Set(SignatureHeader, c.sign(body))
	}
	resp, err := client(explicit).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		answer = append(answer, " (reading it: "+err.Error()+")"...)
	}
	return errors.New(strings.ToValidUTF8("HTTP "+resp.Status+": "+string(answer), "\uFFFD"))
}

// allowed returns an error if the host of a URL is not allowed. explicit reports whether the
// host is allowed by its full name.
func (c *Caller) allowed(target string) (explicit bool, _ error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return false, fmt.Errorf("%w: %q is no URL to call", ErrForbidden, target)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if slices.ContainsFunc(c.Hosts, func(h string) bool { return strings.ToLower(h) == host }) {
		return true, nil
	}
	for _, glob := range c.Hosts {
		if ok, err := path.Match(strings.ToLower(glob), host); ok && err == nil {
			return false, nil
		}
	}
	return false, fmt.Errorf("%w: the host %s is not among those that may be called (--callback-hosts)", ErrForbidden, host)
}

// sign returns the signature of a body, with the current time.
func (c *Caller) sign(body []byte) string {
	at := strconv.FormatInt(c.now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(c.Secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return "t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// client returns a client for one call that follows no redirects. A host that is allowed by its
// full name may have any address; other hosts must have a public one.
func client(explicit bool) *http.Client {
	dialer := outbound.Dialer{}
	if explicit {
		dialer.Exempt = func(string, netip.Addr) bool { return true }
	}
	return &http.Client{
		Transport:     dialer.Transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

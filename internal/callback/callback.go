// Package callback calls the URLs that want to hear of the end of runs. Since they
// come with definitions, which a stranger may have written, a call goes only to a
// host that the operator allows and, unless that host is allowed by its full name,
// to no private address, whatever its name resolves to.
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

// Config says who may be called, and how.
type Config struct {
	Hosts    []string      // globs of hosts; none: nobody is called
	Secret   string        // signs calls; empty: they are not signed
	MaxTries int           // 0: DefaultMaxTries
	Timeout  time.Duration // of one call; 0: DefaultTimeout
}

// What holds if nothing else is configured.
const (
	DefaultMaxTries = 10
	DefaultTimeout  = 10 * time.Second
)

// The waits between tries double from retryFirst to retryMost, each with half of it
// more or less by chance.
const (
	minRetryPause = time.Second
	maxRetryPause = 5 * time.Minute
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 1 << 10

// Headers of a call.
const (
	// KeyHeader is the same for every try of a call, and for no other call.
	KeyHeader = "Idempotency-Key"
	// SignatureHeader is "t=SECONDS,v1=HEX": the HMAC-SHA256 of "SECONDS.BODY".
	SignatureHeader = "Coppice-Signature"
)

// ErrForbidden says that a URL may not be called: trying again would not help.
var ErrForbidden = outbound.ErrForbidden

// Caller calls URLs. Its methods may be called at once.
type Caller struct {
	Config
	now func() time.Time
}

// New checks the configuration.
func New(c Config) (*Caller, error) {
	for _, glob := range c.Hosts {
		if _, err := path.Match(glob, ""); err != nil || glob == "" || strings.ContainsAny(glob, "/:") && net.ParseIP(glob) == nil {
			return nil, fmt.Errorf("callback hosts: %q is no glob of hosts, such as hooks.example.com or *.example.com", glob)
		}
	}
	if c.MaxTries < 0 || c.Timeout < 0 {
		return nil, errors.New("callbacks: the bound of tries and the timeout must be positive")
	}
	if c.MaxTries == 0 {
		c.MaxTries = DefaultMaxTries
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	return &Caller{Config: c, now: time.Now}, nil
}

// RetryDelay draws how long to wait after a try, counted from 1.
func (*Caller) RetryDelay(try int) time.Duration {
	wait := minRetryPause << min(max(try-1, 0), 16)
	wait = min(wait, maxRetryPause)
	return wait/2 + rand.N(wait)
}

// Call posts a body to a URL. A nil error says that it was answered with success;
// one that is ErrForbidden that it may not be called. An error is text, whatever bytes
// the answer has.
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
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return errors.New(strings.ToValidUTF8("HTTP "+resp.Status+": "+string(answer), "\uFFFD"))
	}
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	return nil
}

// allowed refuses a URL whose host is not allowed. explicit is set if the host is
// allowed by its full name.
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

// sign gives the signature of a body at this moment.
func (c *Caller) sign(body []byte) string {
	at := strconv.FormatInt(c.now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(c.Secret))
	mac.Write([]byte(at + "."))
	mac.Write(body)
	return "t=" + at + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// client gives a client for one call, without redirects. A host that is allowed by
// its full name may be anywhere, any other only on the internet.
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

package mcp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialHTTP makes a connection over HTTP. The address is the operator's, so it may be a
// private one.
func (s *server) dialHTTP() wire {
	base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is documented to be one
	asked := headerTransport{base: base, headers: s.Headers}
	unasked := asked
	unasked.streams = func(req *http.Request) *http.Response {
		return newListenStream(&http.Client{Transport: asked, CheckRedirect: checkRedirect}, req, s.times)
	}
	client := &http.Client{Transport: unasked, CheckRedirect: checkRedirect}
	return wire{
		transport: &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage},
		stop:      func() error { return nil },
		release:   base.CloseIdleConnections,
	}
}

// maxRedirects bounds how far a request is followed.
const maxRedirects = 5

// checkRedirect lets redirects be followed on the host that was configured: neither its
// headers nor what a model says is for another one.
func checkRedirect(next *http.Request, via []*http.Request) error {
	from, to := via[0].URL, next.URL
	upgraded := from.Scheme == "http" && to.Scheme == "https" && from.Port() == "" && to.Port() == ""
	switch {
	case from.Hostname() != to.Hostname() || !upgraded && (from.Scheme != to.Scheme || from.Port() != to.Port()):
		return errors.New("it redirects to another host, which is not followed")
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	return nil
}

// headerTransport adds the headers to requests, notes what becomes of calls, and bounds answers.
type headerTransport struct {
	base    http.RoundTripper
	headers []Header
	streams func(*http.Request) *http.Response // answers requests for a stream that stands; nil: the server does
}

func (c headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.streams != nil && isListenRequest(req) {
		return c.streams(req), nil
	}
	req = req.Clone(req.Context())
	for _, h := range c.headers {
		req.Header.Set(h.Name, h.Value)
	}
	f := callStatusOf(req.Context())
	if f != nil {
		f.sent.Store(true)
	}
	resp, err := c.base.RoundTrip(req)
	if f != nil && err == nil && resp.StatusCode >= http.StatusBadRequest {
		f.status.Store(int32(resp.StatusCode))
		if req.Method == http.MethodPost && resp.StatusCode == http.StatusNotFound {
			f.unknown.Store(true)
		}
	}
	// Whatever else is said of it, the session is over.
	if err == nil && resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != "" {
		_ = resp.Body.Close() // only its status matters
		resp.Body = http.NoBody
	}
	// A stream of events is bounded event by event.
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), eventStream) {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, err
}

// boundedBody is a body that fails once it turns out to be too long.
type boundedBody struct {
	io.ReadCloser
	left int
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxMessage)
	}
	return n, err
}

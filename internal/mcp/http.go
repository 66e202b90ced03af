package mcp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// dialHTTP returns an HTTP transport. The operator chose the address, so it may be private.
func (s *server) dialHTTP() wire {
	base := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // documented to have this type
	replies := newReplies()
	asked := headerTransport{base: base, headers: s.Headers, replies: replies, replyTimeout: s.times.write}
	unasked := asked
	unasked.streams = func(req *http.Request) *http.Response {
		return newListenStream(&http.Client{Transport: asked, CheckRedirect: checkRedirect}, req, s.times)
	}
	client := &http.Client{Transport: unasked, CheckRedirect: checkRedirect}
	return wire{
		transport: &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage},
		replies:   replies,
		stop: func() error {
			replies.end(nil)
			return nil
		},
		release: base.CloseIdleConnections,
	}
}

// maxRedirects bounds the redirects of a request.
const maxRedirects = 5

// checkRedirect allows redirects only on the configured host. Headers and inputs are not meant
// for any other.
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

// headerTransport adds the headers to requests, records the status of calls, and bounds
// responses and replies.
type headerTransport struct {
	base    http.RoundTripper
	headers []Header
	streams func(*http.Request) *http.Response // handles requests for a listen stream; nil: they go to the server
	replies *replies

	replyTimeout time.Duration
}

func (c headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.streams != nil && isListenRequest(req) {
		return c.streams(req), nil
	}
	if isReply(req) {
		return c.reply(req)
	}
	return c.request(req)
}

// request sends a request.
func (c headerTransport) request(req *http.Request) (*http.Response, error) {
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
	// The session is over, whatever else the response says.
	if err == nil && resp.StatusCode == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") != "" {
		_ = resp.Body.Close() // only its status matters
		resp.Body = http.NoBody
	}
	// Event streams are bounded per event. The body of an error is read whole, whatever its type.
	if err == nil && (resp.StatusCode/100 != 2 || !strings.HasPrefix(resp.Header.Get("Content-Type"), eventStream)) {
		resp.Body = &boundedBody{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, err
}

// boundedBody is a body that fails when it exceeds a length.
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

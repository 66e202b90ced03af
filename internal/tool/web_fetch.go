package tool

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/policy"
)

//go:embed web_fetch.md
var webFetchProse string

var webFetchSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "url": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "The URL to load, with http:// or https://."}
  },
  "required": ["url"],
  "additionalProperties": false
}`)

// WebFetchTool is the name of the tool that [NewWebFetch] returns.
const WebFetchTool = "web_fetch"

// Bounds of a fetch.
const (
	fetchTimeout   = 30 * time.Second // of a call, including redirects
	fetchRedirects = 5
	fetchBytes     = 5 << 20  // that are loaded of a document, uncompressed
	fetchHeaders   = 64 << 10 // of a response
	maxURL         = 4096     // characters
	// maxConversions is how many documents of a worker are converted to text at the same time.
	maxConversions = 8
)

type webFetchTool struct {
	transport http.RoundTripper
	timeout   time.Duration
	// conversions has one element for each document that is being converted.
	conversions chan struct{}
}

// NewWebFetch returns the tool that loads pages. It may reach the private destinations in addition
// to the internet.
func NewWebFetch(private outbound.Destinations) Tool {
	return newWebFetch(outbound.Dialer{Exempt: private.Exempt})
}

func newWebFetch(dialer outbound.Dialer) webFetchTool {
	transport := dialer.Transport()
	transport.MaxResponseHeaderBytes = fetchHeaders
	return webFetchTool{transport: transport, timeout: fetchTimeout, conversions: make(chan struct{}, maxConversions)}
}

func (webFetchTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: WebFetchTool, Description: webFetchProse, Schema: webFetchSchema}
}

// Effect: by the rules of HTTP, GET changes nothing.
func (webFetchTool) Effect() Effect { return EffectNone }

// Check: see [Checked].
func (webFetchTool) Check(call Call) error {
	_, err := parseWebFetch(call.Input)
	return err
}

func (t webFetchTool) Call(ctx context.Context, call Call) Outcome {
	target, err := parseWebFetch(call.Input)
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	return result(t.fetch(ctx, call, target))
}

func parseWebFetch(raw json.RawMessage) (*url.URL, error) {
	in := newInput(raw)
	text := in.required("url", maxURL)
	if err := in.err(); err != nil {
		return nil, err
	}
	target, err := outbound.ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	return target, nil
}

// fetch loads a document and returns its text.
func (t webFetchTool) fetch(ctx context.Context, call Call, target *url.URL) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return "", fmt.Errorf("url: %w", err)
	}
	req.Header.Set("Accept", "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1")
	req.Header.Set("User-Agent", "coppice-web-fetch")
	var stopped string
	client := http.Client{Transport: t.transport, CheckRedirect: func(next *http.Request, via []*http.Request) (err error) {
		stopped, err = t.redirect(call.Permissions, next, via)
		return err
	}}
	resp, err := client.Do(req)
	if err != nil {
		return "", t.fetchError(ctx, target, err)
	}
	defer resp.Body.Close()
	if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
		text := fmt.Sprintf("%s redirects to %s, which is not followed: %s", shownURL(resp.Request.URL), cmp.Or(stopped, otherHost), shownURL(to))
		if len(to.String()) <= maxURL {
			text += "\nCall again with that URL if you want it."
		}
		return text, nil
	}
	found := resp.StatusCode >= 200 && resp.StatusCode <= 299
	if !found {
		call.Workspace = nil // the whole text of an error page is not saved
	}
	text, err := t.readDocument(ctx, resp, call)
	if err != nil {
		return "", t.fetchError(ctx, resp.Request.URL, err)
	}
	if !found {
		return "", fmt.Errorf("HTTP %d %s\n%s", resp.StatusCode, http.StatusText(resp.StatusCode), text)
	}
	return text, nil
}

// shownURL returns a URL for a result. Others than the model's, and the normal form of the model's own,
// may be of any length.
func shownURL(u *url.URL) string { return displayPath(excerpt.Short(u.String(), maxURL)) }

// fetchError formats an error for the model.
func (t webFetchTool) fetchError(ctx context.Context, target *url.URL, err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no whole answer within %s", t.timeout)
	}
	return fmt.Errorf("%s: %w", excerpt.Short(target.String(), maxError/2), err) // the reason has to fit behind it
}

// otherHost describes a redirect to another host, which is not followed.
const otherHost = "another host"

// redirect follows redirects within a host, to URLs that a separate call would be allowed to load;
// the dialer checks the address again. stopped says why a redirect was not followed.
func (t webFetchTool) redirect(allowed policy.Layers, next *http.Request, via []*http.Request) (stopped string, err error) {
	if len(via) > fetchRedirects {
		return "", fmt.Errorf("more than %d redirects", fetchRedirects)
	}
	to, err := outbound.ParseURL(next.URL.String())
	if err != nil || !sameHost(via[0].URL, to) {
		return otherHost, http.ErrUseLastResponse
	}
	if allowed.Judge(fetchCall(to)).Decision != policy.Allow {
		return "what has to be allowed by itself", http.ErrUseLastResponse
	}
	next.URL = to
	next.Host = ""
	return "", nil
}

// fetchCall returns the call that loads a URL, as rules see it.
func fetchCall(u *url.URL) policy.Call {
	return policy.Call{Tool: WebFetchTool, Access: policy.AccessNetwork, Kind: policy.KindURL, Argument: u.String()}
}

// sameHost reports whether a redirect stays on the host. It allows the upgrade from http to https.
func sameHost(from, to *url.URL) bool {
	upgraded := from.Scheme == "http" && to.Scheme == "https" && from.Port() == "" && to.Port() == ""
	return from.Hostname() == to.Hostname() && (upgraded || from.Scheme == to.Scheme && from.Port() == to.Port())
}

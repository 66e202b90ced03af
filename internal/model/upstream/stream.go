package upstream

import (
	"bufio"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
)

// RequireStream returns SDK middleware that turns a response which is not a stream into an
// error, although its status is 200 or a redirect, which the SDKs take for success. Servers respond
// so for an endpoint that they do not have, proxies do, and some servers do not support streams.
// kind classifies the error by the text of the response. ErrorBroken means that the text does not
// say. The error is not retried then, because a retry would get the same response.
func RequireStream(kind func(said []byte) model.ErrorKind) func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return func(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		resp, err := next(req)
		switch {
		case err == nil && resp.StatusCode >= 300 && resp.StatusCode < 400:
			resp.Body.Close()
			return nil, redirectError(resp)
		case err != nil || resp.StatusCode != http.StatusOK:
			return resp, err
		}
		what, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if what != "application/json" && what != "text/html" {
			return resp, nil
		}
		from := bufio.NewReader(resp.Body)
		if first, err := from.Peek(1); err == nil && !strings.Contains("{[< \r\n\t", string(first)) {
			resp.Body = struct { // a stream with a wrong content type
				io.Reader
				io.Closer
			}{from, resp.Body}
			return resp, nil
		}
		defer resp.Body.Close() // the rest of the body is not needed
		said, err := io.ReadAll(io.LimitReader(from, maxDetail+1))
		if err != nil {
			return nil, err
		}
		refused := StatusError(resp.StatusCode, resp.Header, fmt.Sprintf("%s instead of a stream: %s", what, strings.TrimSpace(string(said))))
		if k := kind(said); k != model.ErrorBroken && refused.Kind == model.ErrorInvalid {
			refused.Kind = k
		}
		return nil, refused
	}
}

// redirectError returns the error for a redirect. It names only the server to which it points.
func redirectError(resp *http.Response) *model.Error {
	target := "elsewhere"
	if to, err := resp.Location(); err == nil {
		target = "to " + (&url.URL{Scheme: to.Scheme, Host: to.Host}).String()
	}
	e := StatusError(resp.StatusCode, resp.Header, "redirects are not followed (this one points "+target+": is the base URL right?)")
	e.Kind = model.ErrorInvalid
	return e
}

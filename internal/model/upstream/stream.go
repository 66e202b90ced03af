package upstream

import (
	"bufio"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
)

// RequireStream makes what stands between an SDK and the client. An answer that is no stream is a
// refusal, though its status says otherwise: servers answer so where there is no such
// endpoint, what is in front of them does, and some know no streams. kind says what can be done
// about what was said; ErrorBroken means that this does not tell, and then a retry would get
// the same.
func RequireStream(kind func(said []byte) model.ErrorKind) func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return func(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
		resp, err := next(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			return resp, err
		}
		what, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
		if what != "application/json" && what != "text/html" {
			return resp, nil
		}
		from := bufio.NewReader(resp.Body)
		if first, err := from.Peek(1); err == nil && !strings.Contains("{[< \r\n\t", string(first)) {
			resp.Body = struct { // a stream under a wrong name
				io.Reader
				io.Closer
			}{from, resp.Body}
			return resp, nil
		}
		defer resp.Body.Close() // nothing more is wanted of it
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

// Package upstream is the network code that all providers share: an HTTP client whose streams
// cannot stay silent for ever, and the classification of HTTP errors.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/model"
)

// Timeouts bound how long a provider may be silent.
type Timeouts struct {
	// FirstByte is the timeout for the first byte of the response body. A local model reads the
	// whole prompt before it writes.
	FirstByte time.Duration
	// Idle is the timeout between later reads. A reasoning model may be silent while it thinks.
	Idle time.Duration
}

// DefaultTimeouts suit models that think for long and local models that read slowly.
func DefaultTimeouts() Timeouts { return Timeouts{FirstByte: 10 * time.Minute, Idle: 5 * time.Minute} }

// errSilent is the cause of a request that was cancelled by a timeout.
var errSilent = errors.New("the provider was silent for too long")

// Limits of the connection pool, and how soon it notices a dead connection.
const (
	idleConnections = 1024
	pingAfter       = 15 * time.Second
	pingPatience    = 15 * time.Second
)

// NewClient returns a client whose requests fail when the provider is silent for longer than
// the timeouts. It supports many concurrent streams to one host. It follows no redirect, which
// would take the key and the conversation to another server.
func NewClient(times Timeouts) *http.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = idleConnections, idleConnections
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingPatience}
	return &http.Client{
		Transport:     &transport{base: base, timeouts: times},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type transport struct {
	base     http.RoundTripper
	timeouts Timeouts
}

// RoundTrip sends a request and supervises it until the response body is closed.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	silence := time.AfterFunc(t.timeouts.FirstByte, func() { cancel(errSilent) })
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		silence.Stop()
		err = timeoutCause(ctx, err)
		cancel(nil)
		return nil, err
	}
	resp.Body = &body{from: resp.Body, ctx: ctx, cancel: cancel, silence: silence, idle: t.timeouts.Idle}
	return resp, nil
}

// CloseIdleConnections makes the client's method of the same name work.
func (t *transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// body is the body of a response that is being read.
type body struct {
	from    io.ReadCloser
	ctx     context.Context //nolint:containedctx // of the one request that this is the answer to
	cancel  context.CancelCauseFunc
	silence *time.Timer
	idle    time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	switch {
	case err == io.EOF: //nolint:errorlint // a Reader returns it as it is
		b.silence.Stop()
	case err != nil:
		err = timeoutCause(b.ctx, err)
	case n > 0:
		b.silence.Reset(b.idle)
	}
	return n, err
}

func (b *body) Close() error {
	b.silence.Stop()
	err := b.from.Close()
	b.cancel(nil)
	return err
}

// timeoutCause returns the timeout that cancelled the request, if one did, instead of the error
// that followed from it.
func timeoutCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// TransportError returns the error for a connection or stream that failed. It returns the cause
// of ctx if ctx has ended, and err itself if that is a *model.Error.
func TransportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, known := errors.AsType[*model.Error](err); known {
		return refused
	}
	kind := model.ErrorBroken
	if _, certificate := errors.AsType[*tls.CertificateVerificationError](err); certificate || isPlainHTTP(err) {
		kind = model.ErrorInvalid // a retry corrects neither the certificate nor the address
	}
	return &model.Error{Kind: kind, Err: err}
}

// isPlainHTTP reports whether a server that was called over https speaks http.
func isPlainHTTP(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return record || errors.Is(err, http.ErrSchemeMismatch)
}

// maxDetail is how many bytes of a refusal are kept.
const maxDetail = 2000

// StatusError returns the error for a response with a status other than success. said is the
// text of the response.
func StatusError(status int, header http.Header, said string) *model.Error {
	if len(said) > maxDetail {
		said = said[:maxDetail] + "…"
	}
	return &model.Error{
		Kind: RefineKind(KindOfStatus(status), said), RetryAfter: retryAfter(header, time.Now()),
		Err: fmt.Errorf("the provider answered %s: %s", statusText(status), said),
	}
}

// NameAddress adds to the error of a 404 the URL that was asked, without credentials, because the
// likely cause is a wrong base URL. It is for servers other than the vendor's own.
func NameAddress(err error, resp *http.Response) error {
	failed, known := errors.AsType[*model.Error](err)
	if known && resp != nil && resp.StatusCode == http.StatusNotFound && resp.Request != nil {
		asked := url.URL{Scheme: resp.Request.URL.Scheme, Host: resp.Request.URL.Host, Path: resp.Request.URL.Path}
		failed.Err = fmt.Errorf("%w (asked at %s: is the base URL right?)", failed.Err, asked.String())
	}
	return err
}

// defined by Anthropic
const statusOverloaded = 529

// statusText returns a status with its name, if it has one.
func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// IsInvalid reports whether a provider refused a request because of its content.
func IsInvalid(err error) bool {
	failed, known := errors.AsType[*model.Error](err)
	return known && (failed.Kind == model.ErrorInvalid || failed.Kind == model.ErrorTooLong)
}

// tooLongPhrases are the words with which providers refuse a conversation that exceeds the
// context window.
var tooLongPhrases = []string{
	"prompt is too long", "exceed context limit", // Anthropic
	"context_length_exceeded", "maximum context length", // OpenAI and most others
	"the model's context length",                    // vLLM and SGLang
	"exceed_context_size", "available context size", // llama.cpp
	"maximum number of tokens allowed",      // Gemini
	"maximum prompt length",                 // xAI
	"reduce the length of the messages",     // Groq
	"Input is too long for requested model", // Bedrock, behind a gateway
}

// RefineKind refines the kind of a refusal by its text. A conversation that is too long has no
// status or type of its own, so only the text identifies it.
func RefineKind(kind model.ErrorKind, said string) model.ErrorKind {
	if slices.ContainsFunc(tooLongPhrases, func(words string) bool { return strings.Contains(said, words) }) {
		return model.ErrorTooLong
	}
	return kind
}

// KindOfStatus classifies an HTTP status.
func KindOfStatus(status int) model.ErrorKind {
	switch status {
	case http.StatusTooManyRequests:
		return model.ErrorRateLimited
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusPaymentRequired:
		return model.ErrorAuth
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly:
		return model.ErrorBroken
	case statusOverloaded:
		return model.ErrorOverloaded
	}
	if status >= http.StatusInternalServerError {
		return model.ErrorOverloaded
	}
	return model.ErrorInvalid
}

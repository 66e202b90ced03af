// Package upstream is what all providers have in common on the network: a client
// whose streams can't fall silent for ever, and what a refusal over HTTP means.
package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/model"
)

// Timeouts bound how long a provider may be silent.
type Timeouts struct {
	// FirstByte is how long the first byte of an answer's body may take. A local model
	// reads the whole prompt before it writes.
	FirstByte time.Duration
	// Idle is how long the stream may then pause. A reasoning model may be silent
	// while it thinks.
	Idle time.Duration
}

// DefaultTimeouts suit models that think for long and local ones that read slowly.
func DefaultTimeouts() Timeouts { return Timeouts{FirstByte: 10 * time.Minute, Idle: 5 * time.Minute} }

// errSilent is why a request ended that got no answer in time.
var errSilent = errors.New("the provider was silent for too long")

// Connections that are kept, and how soon a dead one is noticed.
const (
	idleConnections = 1024
	pingAfter       = 15 * time.Second
	pingPatience    = 15 * time.Second
)

// NewClient makes a client whose requests fail when the provider is silent for
// longer than times say. It is for many streams to one host at once.
func NewClient(times Timeouts) *http.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = idleConnections, idleConnections
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingPatience}
	return &http.Client{Transport: &transport{base: base, timeouts: times}}
}

type transport struct {
	base     http.RoundTripper
	timeouts Timeouts
}

// RoundTrip sends a request, and watches over it until its answer is closed.
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

// CloseIdleConnections lets the client's method of the same name work.
func (t *transport) CloseIdleConnections() {
	if base, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// body is an answer under way.
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

// timeoutCause gives the reason why a request was ended, if it was, for the error that
// this led to.
func timeoutCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// TransportError is the error of a connection or a stream that did not come to its end.
// It is ctx's cause if ctx has ended, and err itself if that says what it is.
func TransportError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if refused, known := errors.AsType[*model.Error](err); known {
		return refused
	}
	kind := model.ErrorBroken
	if _, certificate := errors.AsType[*tls.CertificateVerificationError](err); certificate || isPlainHTTP(err) {
		kind = model.ErrorInvalid // no retry makes the certificate right, or the address
	}
	return &model.Error{Kind: kind, Err: err}
}

// isPlainHTTP reports whether a server that was asked with https speaks http.
func isPlainHTTP(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return record || errors.Is(err, http.ErrSchemeMismatch)
}

// maxDetail is how much of a refusal's text is kept, in bytes.
const maxDetail = 2000

// StatusError is the error of an answer with a status that is not success; said is
// what the provider wrote.
func StatusError(status int, header http.Header, said string) *model.Error {
	if len(said) > maxDetail {
		said = said[:maxDetail] + "…"
	}
	return &model.Error{
		Kind: RefineKind(KindOfStatus(status), said), RetryAfter: retryAfter(header, time.Now()),
		Err: fmt.Errorf("the provider answered %s: %s", statusText(status), said),
	}
}

// statusOverloaded is Anthropic's.
const statusOverloaded = 529

// statusText is a status with its name, if it has one.
func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// IsInvalid reports whether a provider has refused a request for what it asked.
func IsInvalid(err error) bool {
	failed, known := errors.AsType[*model.Error](err)
	return known && (failed.Kind == model.ErrorInvalid || failed.Kind == model.ErrorTooLong)
}

// tooLongPhrases are words of providers for a conversation that is longer than their model takes.
var tooLongPhrases = []string{
	"prompt is too long", "exceed context limit", // Anthropic
	"context_length_exceeded", "maximum context length", // OpenAI, vLLM and most others
	"exceed_context_size", "available context size", // llama.cpp
}

// RefineKind gives the kind of a refusal for what was said. That a conversation is too long has no
// status and no type of its own, so the words are all there is to tell it by.
func RefineKind(kind model.ErrorKind, said string) model.ErrorKind {
	if slices.ContainsFunc(tooLongPhrases, func(words string) bool { return strings.Contains(said, words) }) {
		return model.ErrorTooLong
	}
	return kind
}

// KindOfStatus says what can be done about an HTTP status.
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

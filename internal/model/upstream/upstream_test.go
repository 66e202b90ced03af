package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/model"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, test := range []struct {
		name, text string
		want       time.Duration
	}{
		{"Retry-After", "", 0},
		{"Retry-After", "3", 3 * time.Second},
		{"Retry-After", " 0.25 ", 250 * time.Millisecond},
		{"Retry-After", "-3", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e30", 24 * time.Hour},
		{"Retry-After", "soon", 0},
		{"Retry-After", "Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
	} {
		header := http.Header{test.name: {test.text}}
		if got := retryAfter(header, now); got != test.want {
			t.Errorf("%s: %q is %s, want %s", test.name, test.text, got, test.want)
		}
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]model.ErrorKind{
		400: model.ErrorInvalid, 401: model.ErrorAuth, 402: model.ErrorAuth, 403: model.ErrorAuth,
		404: model.ErrorInvalid, 408: model.ErrorBroken, 409: model.ErrorBroken, 413: model.ErrorInvalid,
		422: model.ErrorInvalid, 429: model.ErrorRateLimited, 500: model.ErrorOverloaded,
		502: model.ErrorOverloaded, 503: model.ErrorOverloaded, 504: model.ErrorOverloaded, 529: model.ErrorOverloaded,
	} {
		if got := StatusError(status, http.Header{}, "no").Kind; got != want {
			t.Errorf("%d is %s, want %s", status, got, want)
		}
	}
}

// TestTooLong: what providers say of a conversation that is too long.
func TestTooLong(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]model.ErrorKind{
		`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`:                                                                                                                                                                                        model.ErrorTooLong,
		`{"type":"error","error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 190000 + 32000 > 200000"}}`:                                                                                                                                                     model.ErrorTooLong,
		`{"error":{"message":"This model's maximum context length is 12000 tokens. However, your request has 13918 input tokens.","type":"BadRequestError","code":400}}`:                                                                                                                                                  model.ErrorTooLong,
		`{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`:                                                                                                                                                 model.ErrorTooLong,
		`{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}`:                                                                                                             model.ErrorTooLong,
		`{"error":{"message":"You passed 30721 input tokens and requested 2048 output tokens. However, the model's context length is only 32768 tokens, resulting in a maximum input length of 30720 tokens. Please reduce the length of the input prompt.","type":"BadRequestError","param":"input_tokens","code":400}}`: model.ErrorTooLong,
		`{"object":"error","message":"The input (250000 tokens) is longer than the model's context length (200000 tokens).","type":"BadRequestError","param":null,"code":400}`:                                                                                                                                            model.ErrorTooLong,
		`[{"error":{"code":400,"message":"The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`:                                                                                                                                                        model.ErrorTooLong,
		`{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`:                                                                                                                                                                  model.ErrorTooLong,
		`{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages"}}`:                                                                                                                                                                               model.ErrorTooLong,
		`{"error":{"message":"litellm.BadRequestError: BedrockException - {\"message\":\"Input is too long for requested model.\"}","type":null,"param":null,"code":"400"}}`:                                                                                                                                              model.ErrorTooLong,
		`{"error":{"message":"the name of a tool is too long","type":"invalid_request_error"}}`:                                                                                                                                                                                                                           model.ErrorInvalid,
	} {
		failed := StatusError(http.StatusBadRequest, http.Header{}, said)
		if failed.Kind != want || !IsInvalid(failed) {
			t.Errorf("%s is %s", said, failed.Kind)
		}
	}
}

func TestBroken(t *testing.T) {
	t.Parallel()
	var failed *model.Error
	if err := TransportError(t.Context(), io.ErrUnexpectedEOF); !errors.As(err, &failed) || failed.Kind != model.ErrorBroken {
		t.Errorf("a cut stream is %v", err)
	}
	for _, why := range []error{x509.UnknownAuthorityError{}, x509.HostnameError{Certificate: &x509.Certificate{}}, x509.CertificateInvalidError{Reason: x509.Expired}, errors.New("certificate signed by nobody")} {
		err := TransportError(t.Context(), &url.Error{Op: "Post", URL: "https://h", Err: &tls.CertificateVerificationError{Err: why}})
		if !errors.As(err, &failed) || failed.Kind != model.ErrorInvalid {
			t.Errorf("a wrong certificate is %v", err)
		}
	}
	for _, why := range []error{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, http.ErrSchemeMismatch} {
		err := TransportError(t.Context(), &url.Error{Op: "Post", URL: "https://h", Err: why})
		if !errors.As(err, &failed) || failed.Kind != model.ErrorInvalid {
			t.Errorf("a server that speaks http is %v", err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the run is over")
	cancel(why)
	if err := TransportError(ctx, io.ErrUnexpectedEOF); !errors.Is(err, why) {
		t.Errorf("a cancelled request ends with %v", err)
	}
}

// slow answers with a head after a while, and then with pieces at a pace; it ends
// when its request does.
type slow struct {
	head, pace time.Duration
	pieces     int
}

func (s slow) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := pause(req.Context(), s.head); err != nil {
		return nil, err
	}
	from, to := io.Pipe()
	go func() {
		for range s.pieces {
			if err := pause(req.Context(), s.pace); err != nil {
				to.CloseWithError(err)
				return
			}
			if _, err := io.WriteString(to, "x"); err != nil {
				return
			}
		}
		to.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: from}, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestSilence(t *testing.T) {
	t.Parallel()
	times := Timeouts{FirstByte: time.Minute, Idle: 10 * time.Second}
	for name, test := range map[string]struct {
		from slow
		want string // what was read
		err  bool
	}{
		"in time":                {slow{50 * time.Second, 9 * time.Second, 3}, "xxx", false},
		"for long, but not idle": {slow{time.Second, 9 * time.Second, 100}, strings.Repeat("x", 100), false},
		"no head":                {slow{61 * time.Second, 0, 1}, "", true},
		"no first byte":          {slow{50 * time.Second, 11 * time.Second, 1}, "", true},
		"idle":                   {slow{time.Second, 11 * time.Second, 3}, "x", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := &http.Client{Transport: &transport{base: test.from, timeouts: times}}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://provider/", nil)
				if err != nil {
					t.Fatal(err)
				}
				var read []byte
				resp, err := client.Do(req)
				if err == nil {
					read, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if string(read) != test.want || errors.Is(err, errSilent) != test.err {
					t.Errorf("read %q, then %v", read, err)
				}
			})
		})
	}
}

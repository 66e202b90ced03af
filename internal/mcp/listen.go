package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// listenStream is the body of the stream over which a server sends unsolicited messages.
// Servers need not support it, so its failure never affects the connection. It is requested on
// the first read, and again when it breaks, with growing pauses. If the server does not support
// it, it stays silent. It ends with the context of its request. Requests and notifications of
// the server are passed on, all else is dropped. Because messages may be lost while the stream
// is broken, it then reports a change of the tools.
type listenStream struct {
	client *http.Client
	req    *http.Request
	times  times

	pauses  backoff.ExponentialBackOff
	body    io.ReadCloser // nil: not open
	in      *bufio.Reader
	since   time.Time // when it was opened
	broken  bool      // it was open before
	pending []byte    // to be read
}

// isListenRequest reports whether a request is for such a stream. A request that resumes after
// an event belongs to the response of a call, and one that follows a redirect may be for
// anything.
func isListenRequest(req *http.Request) bool {
	return req.Response == nil &&
		(req.Method == http.MethodGet && req.Header.Get("Last-Event-Id") == "" ||
			req.Method == http.MethodPost && req.Header.Get("Mcp-Method") == "subscriptions/listen")
}

// newListenStream responds to a request for a stream in place of the server.
func newListenStream(client *http.Client, req *http.Request, t times) *http.Response {
	s := &listenStream{client: client, req: req, times: t, pauses: t.backoff()}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {eventStream}}, ContentLength: -1, Body: s, Request: req,
	}
}

const eventStream = "text/event-stream"

// changedEvent is the notification that the tools have changed.
const changedEvent = `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n"

func (s *listenStream) Read(p []byte) (int, error) {
	for len(s.pending) == 0 {
		if s.body == nil {
			if err := s.open(); err != nil {
				return 0, err
			}
			continue
		}
		data, err := s.event()
		if message, decodeErr := jsonrpc.DecodeMessage(data); decodeErr == nil {
			if _, ok := message.(*jsonrpc.Request); ok {
				s.pending = fmt.Appendf(nil, "data: %s\n\n", bytes.ReplaceAll(data, []byte("\n"), []byte(" ")))
			}
		}
		if err != nil {
			_ = s.Close() // it is broken
			if time.Since(s.since) >= s.times.stable {
				s.pauses.Reset()
			}
		}
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// Close closes the stream.
func (s *listenStream) Close() error {
	if s.body == nil {
		return nil
	}
	body := s.body
	s.body = nil
	return body.Close()
}

// open requests the stream until it is open.
func (s *listenStream) open() error {
	ctx := s.req.Context()
	if s.broken {
		sleep(ctx, s.pauses.NextBackOff())
	}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		resp, err := s.ask(ctx)
		switch {
		case err != nil || isTemporary(resp):
		case resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), eventStream):
			_ = resp.Body.Close() // the server does not support the stream
			<-ctx.Done()
			return context.Cause(ctx)
		default:
			if s.broken {
				s.pending = []byte(changedEvent)
			}
			s.body, s.in, s.since, s.broken = resp.Body, bufio.NewReader(resp.Body), time.Now(), true
			return nil
		}
		if err == nil {
			_ = resp.Body.Close() // only its status matters
		}
		sleep(ctx, s.pauses.NextBackOff())
	}
}

// ask sends the request once.
func (s *listenStream) ask(ctx context.Context) (*http.Response, error) {
	req := s.req.Clone(ctx)
	if s.req.GetBody != nil {
		body, err := s.req.GetBody()
		if err != nil {
			return nil, err
		}
		req.Body = body
	}
	return s.client.Do(req)
}

// isTemporary reports whether a failure may be temporary.
func isTemporary(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests
}

// event reads the data of an event. An incomplete event is dropped.
func (s *listenStream) event() ([]byte, error) {
	var data []byte
	size := 0
	for {
		line, err := s.in.ReadSlice('\n')
		whole := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(whole) <= maxMessage {
			line, err = s.in.ReadSlice('\n')
			whole = append(whole, line...)
		}
		if err != nil {
			return nil, err
		}
		if size += len(whole); size > maxMessage {
			return nil, fmt.Errorf("an event has more than %d bytes", maxMessage)
		}
		if whole = bytes.TrimRight(whole, "\r\n"); len(whole) == 0 {
			return data, nil
		}
		if part, ok := bytes.CutPrefix(whole, []byte("data:")); ok {
			data = append(append(data, part...), '\n')
		}
	}
}

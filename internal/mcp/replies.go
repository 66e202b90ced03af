package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxReplies is how many replies to requests of a server, such as pings, are on their way at the
// same time. A server that sends more requests does not take the replies.
const maxReplies = 64

// replies bounds the replies over a connection, because the session replies to each request in a
// goroutine of its own.
type replies struct {
	broken  context.Context         //nolint:containedctx // ends with the reason when the connection has to end
	end     context.CancelCauseFunc // ends broken
	sending atomic.Int64            // replies on their way
}

func newReplies() *replies {
	r := &replies{}
	r.broken, r.end = context.WithCancelCause(context.Background())
	return r
}

// failure returns why the connection has to end; nil: not because of replies.
func (r *replies) failure() error {
	if why := context.Cause(r.broken); !errors.Is(why, context.Canceled) {
		return why
	}
	return nil
}

// send sends a reply. If too many are on their way, it fails and ends the connection.
func (r *replies) send(reply func() error) error {
	defer r.sending.Add(-1)
	if r.sending.Add(1) > maxReplies {
		err := fmt.Errorf("it sends requests and does not take the replies, of which %d wait", maxReplies)
		r.end(err)
		return err
	}
	return reply()
}

// isReply reports whether an HTTP request is a reply to a request of the server.
func isReply(req *http.Request) bool {
	if req.Method != http.MethodPost || req.GetBody == nil || callStatusOf(req.Context()) != nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return false
	}
	message, err := jsonrpc.DecodeMessage(data)
	_, ok := message.(*jsonrpc.Response)
	return ok && err == nil
}

// reply sends a reply by HTTP. It does not outlast the connection.
func (c headerTransport) reply(req *http.Request) (resp *http.Response, err error) {
	err = c.replies.send(func() error {
		ctx, cancel := context.WithTimeout(req.Context(), c.replyTimeout)
		defer cancel()
		defer context.AfterFunc(c.replies.broken, cancel)()
		if resp, err = c.request(req.WithContext(ctx)); err != nil { //nolint:bodyclose // it is closed below
			return err
		}
		text := []byte(nil)
		if resp.StatusCode >= http.StatusBadRequest { // otherwise nothing is expected
			text, err = io.ReadAll(io.LimitReader(resp.Body, maxError))
		}
		_ = resp.Body.Close() // the rest does not matter
		resp.Body = io.NopCloser(bytes.NewReader(text))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("replying to a request of the server: %w", err)
	}
	return resp, nil
}

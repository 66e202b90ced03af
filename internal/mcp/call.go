package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
)

// remote is a tool of a server.
type remote struct {
	server *server
	listed listedTool
}

// Spec returns the specification from the server, in the form that providers accept.
func (t remote) Spec() model.ToolSpec { return t.listed.spec }

// Effect is lasting, except for tools that only read according to a server whose annotations
// are trusted.
func (t remote) Effect() tool.Effect {
	if t.listed.readOnly {
		return tool.EffectNone
	}
	return tool.EffectLasting
}

// Guard returns a guard whose argument is the canonical input.
func (t remote) Guard() tool.Guard {
	g := tool.Guard{Access: policy.AccessOther, Arguments: func(call tool.Call) []string {
		input, err := canonical(call.Input)
		if err != nil {
			return []string{string(call.Input)}
		}
		return []string{string(input)}
	}}
	if t.listed.readOnly {
		g.Access = policy.AccessRead
	}
	return g
}

// canonical returns the canonical JSON of an input, with sorted keys. Of a repeated key the
// last value counts, for the guard and for the server.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}"), nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var input map[string]any
	if err := decoder.Decode(&input); err != nil || input == nil {
		return nil, errors.New("the input is no JSON object")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the input is more than one JSON object")
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(input); err != nil {
		return nil, fmt.Errorf("writing the input: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// Call calls the tool on the server.
func (t remote) Call(ctx context.Context, call tool.Call) tool.Outcome {
	input, err := canonical(call.Input)
	if err != nil {
		return tool.Done{Text: err.Error(), IsError: true}
	}
	clean := func(text string) string { return call.Secrets.String(t.server.scrubber.clean(text)) }
	result, err := t.server.call(ctx, t.listed.own, input)
	if err != nil {
		return tool.Done{Text: excerpt.Short(clean(err.Error()), maxError), IsError: true}
	}
	text := clean(labels(clean).textOf(result))
	return tool.Done{Text: call.FitResult(t.Spec().Name, text), IsError: result.IsError}
}

// call calls a tool. A call that has certainly not reached the server is repeated if the server
// is back soon.
func (s *server) call(ctx context.Context, own string, input json.RawMessage) (*sdk.CallToolResult, error) {
	patience, cancel := context.WithTimeout(ctx, s.times.back)
	defer cancel()
	for {
		l, err := s.ready(patience)
		if err != nil {
			return nil, err
		}
		var sent callStatus
		result, err := s.callOver(withCallStatus(ctx, &sent), l, own, input)
		if err == nil || !sent.unsent(err) {
			return result, err
		}
		s.set(func() {
			if s.conn == l {
				s.conn, s.why = nil, err
			}
		})
		l.end(err)
	}
}

// ready returns the connection, or an error if there is none.
func (s *server) ready(ctx context.Context) (*connection, error) {
	var l *connection
	var why error
	up := s.waitFor(ctx, func() bool {
		if l, why = s.conn, s.why; l == nil {
			select {
			case s.wake <- struct{}{}:
			default:
			}
		}
		return l != nil
	})
	switch {
	case up:
		return l, nil
	case why == nil:
		why = errors.New("it has not been reached yet")
	}
	return nil, fmt.Errorf("the MCP server %s is down, and was not back within %s: %w", s.Name, s.times.back, why)
}

// callOver makes a call over a connection.
func (s *server) callOver(ctx context.Context, l *connection, own string, input json.RawMessage) (*sdk.CallToolResult, error) {
	result, err := withTimeout(ctx, s, s.Timeout, func(ctx context.Context) (*sdk.CallToolResult, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		select {
		case <-l.ending:
			return nil, sdk.ErrConnectionClosed
		default:
		}
		// Calls to a process end with its pipes; that tells whether they were sent.
		if s.URL != "" {
			s.calls.Go(func() {
				select {
				case <-l.ending:
					cancel()
				case <-ctx.Done():
				}
			})
		}
		return l.session.CallTool(ctx, &sdk.CallToolParams{Name: own, Arguments: input})
	})
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("the call was cancelled: %w", context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		s.calls.Go(func() { s.probe(context.WithoutCancel(ctx), l) })
		return nil, fmt.Errorf("the MCP server %s gave no answer within %s; the call was cancelled, and may have had its effect all the same", s.Name, s.Timeout)
	}
	return nil, s.explain(ctx, l, err)
}

// withTimeout sends a request to a server, with a timeout. It does not wait for ask to return,
// because a process that does not read can block it.
func withTimeout[T any](ctx context.Context, s *server, limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	s.calls.Go(func() {
		value, err := ask(ctx)
		answers <- answer{value, err}
	})
	defer cancel()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// explain returns the reason why a call failed.
func (s *server) explain(ctx context.Context, l *connection, err error) error {
	f := callStatusOf(ctx)
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	_, onTheWay := errors.AsType[*url.Error](err)
	switch {
	case f.unsent(err):
		return err
	case onTheWay:
	case errors.Is(err, sdk.ErrConnectionClosed):
		// For these responses the SDK keeps only the text, behind its own.
		text := strings.TrimPrefix(err.Error(), sdk.ErrConnectionClosed.Error()+": ")
		return fmt.Errorf("the MCP server %s answered with an error: %s", s.Name, text)
	case ok && (answer.Code != codeRejected || f.sent.Load() && f.status.Load() == 0):
		return fmt.Errorf("the MCP server %s answered with an error: %s (%d)", s.Name, answer.Message, answer.Code)
	case ok && f.failed():
		return fmt.Errorf("the MCP server %s failed at the call, which may have had its effect: %w", s.Name, err)
	case ok:
		return fmt.Errorf("the MCP server %s did not take the call: %w", s.Name, err)
	default:
		// If the connection has ended, its error says more than that of the call.
		select {
		case <-l.ending:
		case <-time.After(endDetection):
			return fmt.Errorf("the MCP server %s gave no answer that can be read to the call, which may have had its effect: %w", s.Name, err)
		}
		select {
		case <-l.done:
			err = l.why
		case <-time.After(s.times.close + time.Second):
		}
	}
	return fmt.Errorf("the connection to the MCP server %s was lost during the call, which may have had its effect: %w", s.Name, err)
}

// endDetection is how long after a failed call the end of its connection is detected.
const endDetection = time.Second

// codeRejected is the SDK's code for a call that it could not send. Servers may respond with it
// too.
const codeRejected = -32005

// callStatus is what is known about a call in progress.
type callStatus struct {
	sent    atomic.Bool  // it was given to the transport
	status  atomic.Int32 // HTTP error status of the response
	unknown atomic.Bool  // the server does not know the session
}

type callStatusKey struct{}

func withCallStatus(ctx context.Context, f *callStatus) context.Context {
	return context.WithValue(ctx, callStatusKey{}, f)
}

// callStatusOf returns the status of the call that a request belongs to, or nil.
func callStatusOf(ctx context.Context) *callStatus {
	f, _ := ctx.Value(callStatusKey{}).(*callStatus)
	return f
}

// unsent reports whether a call has certainly not reached the server's tools: nothing was
// listening, the session was unknown, or the connection ended before the call was sent
// completely. A lost session is the error of all calls in progress; only those that got this
// response themselves were not accepted. The SDK treats some codes, with which servers may
// respond, as the end of the connection; a call that was sent has then had such a response.
func (f *callStatus) unsent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	pipe, broken := errors.AsType[*fs.PathError](err)
	return ok && dial.Op == "dial" || broken && errors.Is(pipe, syscall.EPIPE) ||
		f.unknown.Load() && errors.Is(err, sdk.ErrSessionMissing) ||
		!f.sent.Load() && errors.Is(err, sdk.ErrConnectionClosed)
}

// failed reports whether a call got a status that does not tell whether it has reached the
// server's tools.
func (f *callStatus) failed() bool {
	status := f.status.Load()
	return status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable
}

// probe closes the connection to a server that no longer responds.
func (s *server) probe(ctx context.Context, l *connection) {
	_, err := withTimeout(ctx, s, s.times.probe, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.session.Ping(ctx, nil)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.WarnContext(ctx, "an MCP server does not answer any more")
		l.end(errors.New("it does not answer any more"))
	}
}

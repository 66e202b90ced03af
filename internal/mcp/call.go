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

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tool"
)

// remote is a tool of a server.
type remote struct {
	server *server
	offer  offer
}

// Spec is what the server says, made plain.
func (t remote) Spec() model.ToolSpec { return t.offer.spec }

// Effect is lasting, but for tools that only read, by the word of a server that is
// taken at it.
func (t remote) Effect() tool.Effect {
	if t.offer.readOnly {
		return tool.EffectNone
	}
	return tool.EffectLasting
}

// Guard: the argument is the input as it is sent to the server, as JSON with its keys
// in order.
func (t remote) Guard() tool.Guard {
	g := tool.Guard{Access: policy.AccessOther, Arguments: func(call tool.Call) []string {
		input, err := canonical(call.Input)
		if err != nil {
			return []string{string(call.Input)}
		}
		return []string{string(input)}
	}}
	if t.offer.readOnly {
		g.Access = policy.AccessRead
	}
	return g
}

// canonical gives the one way in which an input is written: that of a key that is
// there twice the last counts, for us and for the server.
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

// Call calls the tool at the server.
func (t remote) Call(ctx context.Context, call tool.Call) tool.Outcome {
	input, err := canonical(call.Input)
	if err != nil {
		return tool.Done{Text: err.Error(), IsError: true}
	}
	result, err := t.server.call(ctx, t.offer.own, input)
	if err != nil {
		return tool.Done{Text: t.server.text(err), IsError: true}
	}
	text := cleaned(t.server.scrubber.scrub(textOf(result)))
	return tool.Done{Text: call.Workspace.FitResult(t.Spec().Name, text), IsError: result.IsError}
}

// call calls a tool. A call that certainly has not reached the server is made again
// once it is back, if that is soon.
func (s *server) call(ctx context.Context, own string, input json.RawMessage) (*sdk.CallToolResult, error) {
	patience, cancel := context.WithTimeout(ctx, s.times.back)
	defer cancel()
	for {
		l, err := s.ready(patience)
		if err != nil {
			return nil, err
		}
		var sent fate
		result, err := s.over(withFate(ctx, &sent), l, own, input)
		if err == nil || !sent.unsent(err) {
			return result, err
		}
		s.set(func() {
			if s.link == l {
				s.link, s.why = nil, err
			}
		})
		l.end(err)
	}
}

// ready gives the connection, or says that there is none.
func (s *server) ready(ctx context.Context) (*link, error) {
	var l *link
	var why error
	up := s.until(ctx, func() bool {
		if l, why = s.link, s.why; l == nil {
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

// over makes a call over a connection.
func (s *server) over(ctx context.Context, l *link, own string, input json.RawMessage) (*sdk.CallToolResult, error) {
	result, err := within(ctx, s, s.Timeout, func(ctx context.Context) (*sdk.CallToolResult, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		select {
		case <-l.ending:
			return nil, sdk.ErrConnectionClosed
		default:
		}
		// Calls of a process end with its pipes, which tells what was sent from what was not.
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
	return nil, s.explained(ctx, l, err)
}

// within asks a server for something, and waits no longer than it may take: a process
// that does not read can hold up the asking itself, whose end is not waited for here.
func within[T any](ctx context.Context, s *server, limit time.Duration, ask func(context.Context) (T, error)) (T, error) {
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

// explained says what went wrong with a call.
func (s *server) explained(ctx context.Context, l *link, err error) error {
	f := fateOf(ctx)
	answer, ok := errors.AsType[*jsonrpc.Error](err)
	_, onTheWay := errors.AsType[*url.Error](err)
	switch {
	case f.unsent(err):
		return err
	case onTheWay:
	case errors.Is(err, sdk.ErrConnectionClosed):
		// Of these answers the SDK keeps the text only, behind its own.
		text := strings.TrimPrefix(err.Error(), sdk.ErrConnectionClosed.Error()+": ")
		return fmt.Errorf("the MCP server %s answered with an error: %s", s.Name, text)
	case ok && (answer.Code != codeRejected || f.sent.Load() && f.status.Load() == 0):
		return fmt.Errorf("the MCP server %s answered with an error: %s (%d)", s.Name, answer.Message, answer.Code)
	case ok && f.failed():
		return fmt.Errorf("the MCP server %s failed at the call, which may have had its effect: %w", s.Name, err)
	case ok:
		return fmt.Errorf("the MCP server %s did not take the call: %w", s.Name, err)
	default:
		// The end of the connection, if it is that, says more than that of the call.
		select {
		case <-l.ending:
		case <-time.After(endsWithin):
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

// endsWithin is how long after a call that it ends a connection is known to end.
const endsWithin = time.Second

// codeRejected is what the SDK gives a call that it could not hand over. Servers may
// answer with it too.
const codeRejected = -32005

// fate is what is known of a call on its way.
type fate struct {
	sent    atomic.Bool  // it was given to what the connection goes over
	status  atomic.Int32 // of HTTP that it was answered with, if that is an error
	unknown atomic.Bool  // the server does not know the session it came in
}

type fateKey struct{}

func withFate(ctx context.Context, f *fate) context.Context {
	return context.WithValue(ctx, fateKey{}, f)
}

// fateOf gives that of the call which a request belongs to; nil if it belongs to none.
func fateOf(ctx context.Context) *fate {
	f, _ := ctx.Value(fateKey{}).(*fate)
	return f
}

// unsent reports whether a call has certainly not reached the server's tools: nobody
// was there, the session was unknown, or the connection had ended before it was sent
// whole. That a session is lost is the error of all calls under way in it, of which
// only those were not taken that were told so themselves. The SDK takes some codes,
// with which servers may answer, for the end of the connection: a call that was sent
// has had such an answer.
func (f *fate) unsent(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	pipe, broken := errors.AsType[*fs.PathError](err)
	return ok && dial.Op == "dial" || broken && errors.Is(pipe, syscall.EPIPE) ||
		f.unknown.Load() && errors.Is(err, sdk.ErrSessionMissing) ||
		!f.sent.Load() && errors.Is(err, sdk.ErrConnectionClosed)
}

// failed reports whether a call was answered with a status that does not say whether it
// has reached the server's tools.
func (f *fate) failed() bool {
	status := f.status.Load()
	return status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable
}

// probe ends the connection to a server that does not answer anything any more.
func (s *server) probe(ctx context.Context, l *link) {
	_, err := within(ctx, s, s.times.probe, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, l.session.Ping(ctx, nil)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.WarnContext(ctx, "an MCP server does not answer any more")
		l.end(errors.New("it does not answer any more"))
	}
}

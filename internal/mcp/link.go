package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// connection is a connection to a server.
type connection struct {
	session *sdk.ClientSession
	replies *replies
	relist  chan struct{} // the server says that its tools have changed
	end     func(error)   // ends the connection, with a reason; the first call counts
	ending  chan struct{} // closed when either side starts to end it
	done    chan struct{} // closed when it has ended completely
	why     error         // why it has ended; read it only after done
}

// wire is the transport of a connection.
type wire struct {
	transport sdk.Transport
	replies   *replies
	stop      func() error // ends it and returns its error
	release   func()       // releases what is left after the session
}

// legacyProtocol is the last protocol version that starts with an initialise request. Servers
// of that time may exit on any other request.
const legacyProtocol = "2025-11-25"

// connect connects and lists the tools. If the server does not accept one way to start a
// session, it tries the other.
func (s *server) connect(ctx context.Context) (*connection, []listedTool, error) {
	l, err := s.initialise(ctx)
	if err != nil && ctx.Err() == nil {
		s.legacy = !s.legacy
		if !errors.Is(err, context.DeadlineExceeded) {
			first := err
			if l, err = s.initialise(ctx); err != nil && ctx.Err() == nil {
				s.legacy, err = !s.legacy, first
			}
		}
	}
	switch {
	case err != nil && s.Command != "":
		return nil, nil, s.explainHidden(err)
	case err != nil:
		return nil, nil, err
	}
	offers, err := s.list(ctx, l)
	if err != nil {
		err = cmp.Or(l.replies.failure(), err)
		l.end(err)
		<-l.done
		return nil, nil, fmt.Errorf("listing the tools: %w", err)
	}
	return l, offers, nil
}

// initialise connects in one of the two ways.
func (s *server) initialise(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, s.times.connect)
	defer cancel()
	w, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	relist := make(chan struct{}, 1)
	client := sdk.NewClient(&sdk.Implementation{Name: "coppice", Version: version()}, &sdk.ClientOptions{
		Logger: slog.New(slog.DiscardHandler), Capabilities: &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			select {
			case relist <- struct{}{}:
			default:
			}
		},
	})
	client.AddSendingMiddleware(listPages)
	options := &sdk.ClientSessionOptions{}
	if s.legacy {
		options.ProtocolVersion = legacyProtocol
	}
	defer context.AfterFunc(w.replies.broken, cancel)()
	session, err := client.Connect(ctx, w.transport, options)
	if err != nil {
		err = cmp.Or(w.replies.failure(), err)
		if became := w.stop(); became != nil {
			err = fmt.Errorf("%w (%w)", err, became)
		}
		w.release()
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return newConnection(session, w, relist), nil
}

// newConnection waits for the end of the connection, from either side, and cleans up.
func newConnection(session *sdk.ClientSession, w wire, relist chan struct{}) *connection {
	asked := make(chan error, 1)
	l := &connection{session: session, replies: w.replies, relist: relist, ending: make(chan struct{}), done: make(chan struct{})}
	l.end = func(why error) {
		select {
		case asked <- why:
		default:
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	go func() {
		defer close(l.done)
		var why error
		select {
		case why = <-ended:
			why = cmp.Or(why, errors.New("the connection has ended"))
		case why = <-asked:
		case <-w.replies.broken.Done():
			why = w.replies.failure()
		}
		// The session waits for its calls. They end by this, or with the transport.
		close(l.ending)
		closing := make(chan struct{})
		go func() {
			defer close(closing)
			_ = session.Close() // it is over in any case
		}()
		became := w.stop()
		<-closing
		w.release()
		if l.why = why; became != nil {
			l.why = fmt.Errorf("%w (%w)", why, became)
		}
	}()
	return l
}

// version returns the version of the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// dial creates the transport.
func (s *server) dial(ctx context.Context) (wire, error) {
	if s.Command != "" {
		return s.start(ctx)
	}
	return s.dialHTTP(), nil
}

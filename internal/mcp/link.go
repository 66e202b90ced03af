package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// link is a connection to a server.
type connection struct {
	session *sdk.ClientSession
	relist  chan struct{} // the server says that its tools have changed
	end     func(error)   // ends the connection with all that belongs to it, and says why; the first call counts
	ending  chan struct{} // it is about to end, from whatever side
	done    chan struct{} // it has ended, and nothing is left of it
	why     error         // that it has; to be read once done
}

// wire is what a connection goes over.
type wire struct {
	transport sdk.Transport
	stop      func() error // ends it, and says what became of it
	release   func()       // lets go of what is left once the session is over
}

// legacyProtocol is the last version of the protocol that begins with a greeting. Servers
// of that time may take anything else for a reason to end.
const legacyProtocol = "2025-11-25"

// connect connects, and lists the tools. A server that does not take to how it is
// greeted is greeted the other way.
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
		l.end(err)
		<-l.done
		return nil, nil, fmt.Errorf("listing the tools: %w", err)
	}
	return l, offers, nil
}

// initialise connects in one way.
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
	options := &sdk.ClientSessionOptions{}
	if s.legacy {
		options.ProtocolVersion = legacyProtocol
	}
	session, err := client.Connect(ctx, w.transport, options)
	if err != nil {
		if became := w.stop(); became != nil {
			err = fmt.Errorf("%w (%w)", err, became)
		}
		w.release()
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return newConnection(session, w, relist), nil
}

// newConnection sees to the end of a connection, from whatever side it comes.
func newConnection(session *sdk.ClientSession, w wire, relist chan struct{}) *connection {
	asked := make(chan error, 1)
	l := &connection{session: session, relist: relist, ending: make(chan struct{}), done: make(chan struct{})}
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
		}
		// A session waits for its calls; those end by this, or with what they go over.
		close(l.ending)
		closing := make(chan struct{})
		go func() {
			defer close(closing)
			_ = session.Close() // it is over, one way or another
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

// version is that of the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// dial makes what a connection goes over.
func (s *server) dial(ctx context.Context) (wire, error) {
	if s.Command != "" {
		return s.start(ctx)
	}
	return s.dialHTTP(), nil
}

// maxPages bounds how often a server may say that there are more tools.
const maxPages = 100

// list gives the tools that are taken over.
func (s *server) list(ctx context.Context, l *connection) ([]listedTool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.times.connect)
	defer cancel()
	if result := l.session.InitializeResult(); result.Capabilities == nil || result.Capabilities.Tools == nil {
		return nil, nil
	}
	var listed []*sdk.Tool
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := l.session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		listed = append(listed, slices.DeleteFunc(page.Tools, func(t *sdk.Tool) bool { return !s.wants(t.Name) })...)
		if params.Cursor = page.NextCursor; params.Cursor == "" || len(listed) > maxTools {
			break
		}
	}
	offers, omitted := s.selectTools(listed)
	if params.Cursor != "" && len(listed) <= maxTools {
		rest := omission{"", fmt.Errorf("the list has more than %d pages, and is not read on", maxPages)}
		omitted = slices.Insert(omitted, 0, rest)
	}
	s.logOmitted(ctx, omitted)
	return offers, nil
}

// logOmitted logs which tools are left out, once for each list of them.
func (s *server) logOmitted(ctx context.Context, omitted []omission) {
	var said strings.Builder
	for _, o := range omitted {
		fmt.Fprintf(&said, "%q: %v\n", o.own, o.why)
	}
	if said.String() == s.lastOmitted {
		return
	}
	s.lastOmitted = said.String()
	for _, o := range omitted[:min(len(omitted), 20)] {
		s.log.WarnContext(ctx, "a tool of an MCP server is left out", "tool", excerpt.Short(cleaned(o.own), 100), "error", s.text(o.why))
	}
	if more := len(omitted) - 20; more > 0 {
		s.log.WarnContext(ctx, "more tools of an MCP server are left out", "count", more)
	}
}

package mcp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/excerpt"
)

const (
	// maxPages bounds the pages of a list of tools.
	maxPages = 100
	// maxOwnName bounds the name that a server has for a tool, in bytes.
	maxOwnName = 1000
)

// toolList collects the tools of a list, page by page. It keeps only what is used of them, so it is
// bounded whatever the server sends.
type toolList struct {
	server  *server
	own     []string        // names of the offered tools, and of those that are described wrongly
	known   map[string]bool // the same
	offers  []listedTool    // usable tools, whose names for models are not known before the end
	omitted []omission
	more    int           // tools that are left out in addition
	full    bool          // the server has more tools than can be offered
	cut     bool          // the list has more pages than are read
	holds   time.Duration // for how long the list need not be requested again, as the server says
}

// add adds the tools of a page.
func (l *toolList) add(page []*sdk.Tool) {
	for _, t := range page {
		switch {
		case t == nil || !l.server.wants(t.Name):
		case l.full:
			l.more++
		default:
			l.addTool(t)
		}
	}
}

func (l *toolList) addTool(t *sdk.Tool) {
	switch {
	case t.Name == "" || l.known[t.Name]:
		l.omit(t.Name, errSameName)
		return
	case len(t.Name) > maxOwnName:
		l.omit(t.Name, fmt.Errorf("its name has %d bytes, the bound is %d", len(t.Name), maxOwnName))
		return
	}
	offer, err := l.server.offer(t)
	switch {
	case err == nil && len(l.offers) == maxTools:
		l.full = true
		l.omit(t.Name, fmt.Errorf("the server has more than %d tools", maxTools))
		return
	case err == nil:
		l.offers = append(l.offers, offer)
	case !l.omit(t.Name, err):
		return
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	name := strings.Clone(t.Name)
	l.own, l.known[name] = append(l.own, name), true
}

var errSameName = errors.New("it has the name of another tool, or none")

// omit notes that a tool is left out, and reports whether there was room for that.
func (l *toolList) omit(own string, why error) bool {
	if len(l.omitted) == maxTools {
		l.more++
		return false
	}
	own = l.server.scrubber.scrub(own) // before it is cut
	l.omitted = append(l.omitted, omission{strings.Clone(excerpt.Short(own, maxOwnName)), why})
	return true
}

// result is the whole list as far as the session needs it, for the headers of calls.
func (l *toolList) result() *sdk.ListToolsResult {
	var tools []*sdk.Tool
	for _, o := range l.offers {
		tools = append(tools, &sdk.Tool{Name: o.own, InputSchema: o.spec.Schema})
	}
	return &sdk.ListToolsResult{Tools: tools}
}

// finish returns the tools to offer, and those that are left out. valid are the tools that the
// session accepts.
func (l *toolList) finish(valid []*sdk.Tool) (offers []listedTool, omitted []omission) {
	if l.cut {
		omitted = []omission{{"", fmt.Errorf("the list has more than %d pages, and is not read on", maxPages)}}
	}
	omitted = append(omitted, l.omitted...)
	names := map[string]string{}
	for i, name := range toolNames(l.server.Name, l.own) {
		names[l.own[i]] = name
	}
	for _, o := range l.offers {
		o.spec.Name = names[o.own]
		switch {
		case o.spec.Name == "":
			omitted = append(omitted, omission{o.own, errSameName})
		case !slices.ContainsFunc(valid, func(t *sdk.Tool) bool { return t.Name == o.own }):
			omitted = append(omitted, omission{o.own, errors.New("its input schema has invalid x-mcp-header annotations")})
		default:
			offers = append(offers, o)
		}
	}
	return offers, omitted
}

// toolListKey is the key of a context's *toolList, into which [listPages] lists.
type toolListKey struct{}

// listPages has a request for tools read all pages. The session keeps each result that it gets, so
// it gets one, with no more than it needs.
func listPages(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		l, ok := ctx.Value(toolListKey{}).(*toolList)
		params, isList := req.GetParams().(*sdk.ListToolsParams)
		if !ok || !isList {
			return next(ctx, method, req)
		}
		defer func() { params.Cursor = "" }()
		for n := range maxPages {
			result, err := next(ctx, method, req)
			if err != nil {
				return nil, err
			}
			page, ok := result.(*sdk.ListToolsResult)
			if !ok {
				return result, nil
			}
			l.add(page.Tools)
			if holds := timeToLive(page); n == 0 || holds < l.holds {
				l.holds = holds
			}
			if params.Cursor = page.NextCursor; params.Cursor == "" || l.full {
				return l.result(), nil
			}
		}
		l.cut = true
		return l.result(), nil
	}
}

// timeToLive returns for how long a page need not be requested again.
func timeToLive(page *sdk.ListToolsResult) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(int64(page.TTLMs), most)) * time.Millisecond
}

// list returns the tools to offer.
func (s *server) list(ctx context.Context, l *connection) ([]listedTool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.times.connect)
	defer cancel()
	if result := l.session.InitializeResult(); result.Capabilities == nil || result.Capabilities.Tools == nil {
		return nil, nil
	}
	listed := &toolList{server: s}
	all, err := l.session.ListTools(context.WithValue(ctx, toolListKey{}, listed), &sdk.ListToolsParams{})
	if err != nil {
		return nil, err
	}
	s.listHolds = listed.holds
	offers, omitted := listed.finish(all.Tools)
	s.logOmitted(ctx, omitted, listed.more)
	return offers, nil
}

// logOmitted logs which tools are left out, once per list. more is how many are left out in
// addition.
func (s *server) logOmitted(ctx context.Context, omitted []omission, more int) {
	var said strings.Builder
	for _, o := range omitted {
		fmt.Fprintf(&said, "%q: %v\n", o.own, o.why)
	}
	fmt.Fprintf(&said, "%d more", more)
	if said.String() == s.lastOmitted {
		return
	}
	s.lastOmitted = said.String()
	const shown = 20
	for _, o := range omitted[:min(len(omitted), shown)] {
		s.log.WarnContext(ctx, "a tool of an MCP server is left out", "tool", excerpt.Short(cleaned(o.own), 100), "error", s.text(o.why))
	}
	if more += max(0, len(omitted)-shown); more > 0 {
		s.log.WarnContext(ctx, "more tools of an MCP server are left out", "count", more)
	}
}

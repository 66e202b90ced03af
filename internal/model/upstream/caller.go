package upstream

import (
	"net/http"
	"strconv"

	"github.com/coppice-run/coppice/internal/model"
)

// Headers that say who asks. They go to servers that the installation's owner has
// named, so that a gateway can tell sessions and agents apart, and never to a
// vendor's own.
const (
	HeaderSession = "Coppice-Session"
	HeaderTask    = "Coppice-Task"
	HeaderAgent   = "Coppice-Agent"
	HeaderDepth   = "Coppice-Depth"
)

// CallerHeaders gives the headers that say who asks.
func CallerHeaders(req *model.Request) http.Header {
	h := http.Header{}
	if !req.Session.IsZero() {
		h.Set(HeaderSession, req.Session.String())
	}
	if !req.Task.IsZero() {
		h.Set(HeaderTask, req.Task.String())
	}
	h.Set(HeaderAgent, req.Agent)
	h.Set(HeaderDepth, strconv.Itoa(req.Depth))
	return h
}

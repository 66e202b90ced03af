package upstream

import (
	"net/http"
	"strconv"

	"github.com/coppice-run/coppice/internal/model"
)

// Headers that identify the caller. They let a gateway tell sessions and agents apart. They are
// sent only to servers that the owner of the installation has configured, and never to a
// vendor's own.
const (
	HeaderSession = "Coppice-Session"
	HeaderTask    = "Coppice-Task"
	HeaderAgent   = "Coppice-Agent"
	HeaderDepth   = "Coppice-Depth"
)

// CallerHeaders returns the headers that identify the caller.
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

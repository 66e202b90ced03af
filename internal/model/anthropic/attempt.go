package anthropic

import (
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// attempt says how to make a request. If the provider refuses reasoning, it is first asked to
// drop it, and then gets none. If it refuses a request with attachments, placeholders replace
// them, whatever the error says: error texts about attachments vary too much, and the
// attachments stay in the conversation.
type attempt struct {
	dropThinking bool // ask the provider to drop reasoning
	dropIsNew    bool // the last attempt did not ask for that
	omission
}

// omission is what requests of a conversation leave out. The zero value leaves nothing out.
type omission struct {
	thinking    conversation.RejectedThinking
	attachments bool
}

// request returns the request without what is left out.
func (l omission) request(req *model.Request) *model.Request {
	out := *req
	out.Messages = l.thinking.Strip(out.Messages)
	if l.attachments {
		out.Messages = conversation.WithPlaceholders(out.Messages)
	}
	return &out
}

// next returns the attempt to make after an error. It equals a if there is none.
func (a attempt) next(err error, req *model.Request) attempt {
	if !upstream.IsInvalid(err) {
		return a
	}
	refused, droppable := refusedThinking(upstream.WithoutEchoes(err, req))
	forgotten, thinks := a.thinking.Add(conversation.LastSignature(req.Messages, isOwn))
	switch {
	case thinks && droppable && !a.dropThinking:
		a.dropThinking, a.dropIsNew = true, true
	case thinks && (refused || a.dropIsNew):
		a.dropThinking, a.dropIsNew = false, false
		a.thinking = forgotten
	case conversation.HasAttachments(req.Messages):
		a.attachments = true
	}
	return a
}

// hidesAttachments reports whether a model gets placeholders instead of attachments. Servers
// other than Anthropic's may have models that cannot view attachments, and some do not report
// that in a recognisable way. Models with the name of a Claude can view them.
func (c Config) hidesAttachments(name string) bool {
	_, claude := generation(name)
	return c.BaseURL != "" && !claude
}

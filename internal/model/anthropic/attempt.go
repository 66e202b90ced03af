package anthropic

import (
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/conversation"
	"github.com/coppice-run/coppice/internal/model/upstream"
)

// attempt is how a request is made. A provider that refuses the reasoning that goes back is
// asked to drop it, and then gets none; one that refuses a request with attachments gets
// notes in their place, whatever it says: many words are in use for what it may not like
// about them, and a conversation has them for good.
type attempt struct {
	dropThinking bool // reasoning is to be dropped
	dropIsNew    bool // and that is new to the provider
	omission
}

// omission is what a conversation goes without. The zero value is nothing.
type omission struct {
	thinking    conversation.RejectedThinking
	attachments bool
}

// request gives the request as it is made.
func (l omission) request(req *model.Request) *model.Request {
	out := *req
	out.Messages = l.thinking.Strip(out.Messages)
	if l.attachments {
		out.Messages = conversation.WithPlaceholders(out.Messages)
	}
	return &out
}

// next gives the attempt to make after one with this outcome; the same if there is none.
func (a attempt) next(err error, req *model.Request) attempt {
	if !upstream.IsInvalid(err) {
		return a
	}
	refused, droppable := refusedThinking(err)
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

// hidesAttachments reports whether a model is not shown attachments. Other servers than Anthropic's own
// may have one that can't look at any, and not all of them refuse such a conversation in a
// way that tells it; whatever has the name of a Claude can.
func (c Config) hidesAttachments(name string) bool {
	_, claude := generation(name)
	return c.BaseURL != "" && !claude
}

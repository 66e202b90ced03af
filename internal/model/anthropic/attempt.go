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
	drop     bool // reasoning is to be dropped
	dropping bool // and that is new to the provider
	lack
}

// lack is what a conversation goes without. The zero value is nothing.
type lack struct {
	thoughts    conversation.Forgotten
	attachments bool
}

// request gives the request as it is made.
func (l lack) request(req *model.Request) *model.Request {
	out := *req
	out.Messages = l.thoughts.Of(out.Messages)
	if l.attachments {
		out.Messages = conversation.Noted(out.Messages)
	}
	return &out
}

// after gives the attempt to make after one with this outcome; the same if there is none.
func (a attempt) after(err error, req *model.Request) attempt {
	if !upstream.IsInvalid(err) {
		return a
	}
	refused, droppable := refusedThoughts(err)
	forgotten, thinks := a.thoughts.With(conversation.LastSignature(req.Messages, own))
	switch {
	case thinks && droppable && !a.drop:
		a.drop, a.dropping = true, true
	case thinks && (refused || a.dropping):
		a.drop, a.dropping = false, false
		a.thoughts = forgotten
	case conversation.Attached(req.Messages):
		a.attachments = true
	}
	return a
}

// blind reports whether a model is not shown attachments. Other servers than Anthropic's own
// may have one that can't look at any, and not all of them refuse such a conversation in a
// way that tells it; whatever has the name of a Claude can.
func (c Config) blind(name string) bool {
	_, claude := generation(name)
	return c.BaseURL != "" && !claude
}

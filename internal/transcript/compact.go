package transcript

import "github.com/coppice-run/coppice/internal/tree"

// bytesPerToken is about how much text makes a token.
const bytesPerToken = 4

// EstimateTokens is about how many tokens a conversation has: those that were counted when its model last
// answered, and what has come since. An answer without figures is text like what has come, and so is
// one from before the summary, whose figures count what is not seen any more. Where there is no
// other, all that is seen counts by its text.
func EstimateTokens(seen []tree.Message) int64 {
	summary := 0
	if len(seen) > 0 && seen[0].UpTo > 0 {
		summary = seen[0].Ordinal
	}
	var since int64
	for i := len(seen) - 1; i >= 0; i-- {
		m := &seen[i]
		if counted := m.Usage.Total(); m.Role == tree.RoleAssistant && counted > 0 && m.Ordinal > summary {
			return counted + since
		}
		since += textTokens(m.Blocks)
	}
	return since
}

// What attachments take about: an image of the size that models look at, and a page of a
// document, which has so many bytes.
const (
	imageTokens = 1_600
	pageTokens  = 2_000
	pageBytes   = 50_000
)

// textTokens is about how many tokens blocks have, most of them by their text. Thoughts that their
// provider has not signed are sent to no model, and have none.
func textTokens(blocks []tree.Block) (tokens int64) {
	size := 0
	for i, b := range blocks {
		switch b := b.(type) {
		case tree.Attachment:
			tokens += attachmentTokens(b)
			continue
		case tree.Thinking:
			if b.Signature == "" {
				continue
			}
		}
		size += tree.TextBytes(blocks[i : i+1])
	}
	return tokens + int64(size/bytesPerToken)
}

func attachmentTokens(a tree.Attachment) int64 {
	switch {
	case a.Kind == tree.AttachmentImage:
		return imageTokens
	case a.MediaType == "text/plain":
		return int64(len(a.Data) / bytesPerToken)
	}
	return pageTokens * int64(1+len(a.Data)/pageBytes)
}

// LastModel is the model that has last answered in a conversation; empty if none has.
func LastModel(seen []tree.Message) string {
	for i := len(seen) - 1; i >= 0; i-- {
		if seen[i].Role == tree.RoleAssistant {
			return seen[i].Model
		}
	}
	return ""
}

// OlderPart parts what a model sees for a summary: the older part, which the summary
// will stand for, and the ordinal of its last message. What the model has to
// answer next stays out of it: the last calls with their results, and user messages
// at the end. No part ends between calls and their results. The older part is
// empty if there is nothing to sum up.
func OlderPart(seen []tree.Message) ([]tree.Message, int) {
	if Unanswered(seen) != nil {
		return nil, 0
	}
	end := len(seen)
	for end > 0 && seen[end-1].Role == tree.RoleUser && seen[end-1].UpTo == 0 {
		end--
	}
	if end > 0 && seen[end-1].Role == tree.RoleTool {
		end -= 2
	}
	if end <= 0 || end == 1 && seen[0].UpTo > 0 {
		return nil, 0
	}
	last := 0 // a summary comes before messages that are older than it
	for i := range seen[:end] {
		last = max(last, seen[i].Ordinal)
	}
	return seen[:end], last
}

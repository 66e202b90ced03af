package transcript

import "github.com/coppice-run/coppice/internal/tree"

// bytesPerToken is the approximate size of a token.
const bytesPerToken = 4

// EstimateTokens estimates the number of tokens of a conversation: those that the provider
// counted for the last answer, plus the text after it. Two kinds of answers are estimated by
// their text instead: answers without usage, and answers older than the summary, whose usage
// includes messages that are no longer visible. If no answer has usable figures, all visible
// text counts.
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

// Estimates for attachments: tokens of an image in the size that models use, and tokens and
// bytes of a page of a document.
const (
	imageTokens = 1_600
	pageTokens  = 2_000
	pageBytes   = 50_000
)

// textTokens estimates the tokens of blocks, mostly by their text. Reasoning without a
// signature is not sent to models and counts as 0.
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

// LastModel returns the model that answered last, or "".
func LastModel(seen []tree.Message) string {
	for i := len(seen) - 1; i >= 0; i-- {
		if seen[i].Role == tree.RoleAssistant {
			return seen[i].Model
		}
	}
	return ""
}

// OlderPart returns the part of a visible conversation that a summary can replace, and the
// ordinal of its last message. What the model has to answer next stays out of it: the last
// calls with their results, and user messages at the end. The part never ends between calls and
// their results. It is empty if there is nothing to summarise.
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
	last := 0 // a summary precedes messages that are older than it
	for i := range seen[:end] {
		last = max(last, seen[i].Ordinal)
	}
	return seen[:end], last
}

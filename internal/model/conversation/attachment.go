package conversation

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// The document types that models accept.
const (
	PDF       = "application/pdf"
	PlainText = "text/plain"
)

// imageTypes are the image types that models accept.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// IsImage reports whether an attachment contains the data of an image that models accept.
func IsImage(a tree.Attachment) bool {
	return a.Kind == tree.AttachmentImage && len(a.Data) > 0 && slices.Contains(imageTypes, a.MediaType)
}

// IsDocument reports whether an attachment contains the data of a document of the given type.
func IsDocument(a tree.Attachment, mediaType string) bool {
	return a.Kind == tree.AttachmentDocument && len(a.Data) > 0 && a.MediaType == mediaType
}

// Base64 returns the data of an attachment in base64.
func Base64(a tree.Attachment) string { return base64.StdEncoding.EncodeToString(a.Data) }

// Placeholder returns the text that replaces an attachment which a model cannot be shown.
func Placeholder(a tree.Attachment) string {
	words := []string{"an image"}
	if a.Kind == tree.AttachmentDocument {
		words[0] = "a document"
	}
	for _, w := range []string{a.Name, a.MediaType, a.URL} {
		if w != "" {
			words = append(words, w)
		}
	}
	if len(a.Data) > 0 {
		words = append(words, fmt.Sprintf("%d bytes", len(a.Data)))
	}
	return "[" + strings.Join(words, ", ") + ": it can't be shown here]"
}

// HasAttachments reports whether any message, other than those of the assistant, has an
// attachment.
func HasAttachments(messages []tree.Message) bool {
	return slices.ContainsFunc(messages, func(m tree.Message) bool {
		return m.Role != tree.RoleAssistant && slices.ContainsFunc(m.Blocks, isAttachment)
	})
}

func isAttachment(b tree.Block) bool {
	_, is := b.(tree.Attachment)
	return is
}

// WithPlaceholders returns a copy of the messages in which a placeholder text replaces each
// attachment.
func WithPlaceholders(messages []tree.Message) []tree.Message {
	noted := slices.Clone(messages)
	for i, m := range noted {
		if m.Role == tree.RoleAssistant || !slices.ContainsFunc(m.Blocks, isAttachment) {
			continue
		}
		noted[i].Blocks = slices.Clone(m.Blocks)
		for j, b := range m.Blocks {
			if a, is := b.(tree.Attachment); is {
				noted[i].Blocks[j] = tree.Text{Text: Placeholder(a)}
			}
		}
	}
	return noted
}

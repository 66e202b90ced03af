package conversation

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// The types of documents that models can be shown.
const (
	PDF       = "application/pdf"
	PlainText = "text/plain"
)

// imageTypes are the types of images that models can be shown.
var imageTypes = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// IsImage reports whether the data of an attachment is an image that models can be shown.
func IsImage(a tree.Attachment) bool {
	return a.Kind == tree.AttachmentImage && len(a.Data) > 0 && slices.Contains(imageTypes, a.MediaType)
}

// IsDocument reports whether the data of an attachment is a document of a type.
func IsDocument(a tree.Attachment, mediaType string) bool {
	return a.Kind == tree.AttachmentDocument && len(a.Data) > 0 && a.MediaType == mediaType
}

// Base64 gives the data of an attachment.
func Base64(a tree.Attachment) string { return base64.StdEncoding.EncodeToString(a.Data) }

// Placeholder stands for an attachment that a model can't be shown.
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

// HasAttachments reports whether there is an attachment among messages that is shown to models.
func HasAttachments(messages []tree.Message) bool {
	return slices.ContainsFunc(messages, func(m tree.Message) bool {
		return m.Role != tree.RoleAssistant && slices.ContainsFunc(m.Blocks, isAttachment)
	})
}

func isAttachment(b tree.Block) bool {
	_, is := b.(tree.Attachment)
	return is
}

// WithPlaceholders gives messages with a note in the place of each attachment.
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

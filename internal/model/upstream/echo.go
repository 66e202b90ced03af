package upstream

import (
	"errors"
	"regexp"
	"strings"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

// urls matches URLs in the text of a refusal, which may be JSON.
var urls = regexp.MustCompile(`(?i)(?:[a-z][a-z0-9+.-]*:(?:\\?/){2}|data:[a-z])(?:\\.|[^\s"\\])*`)

// minEcho is the length of the shortest part of a name that is looked for in a refusal.
const minEcho = 5

// WithoutEchoes returns a refusal without URLs, and without the names and URLs of the request's
// attachments. A provider may repeat them, and what a user has written says nothing about the model.
func WithoutEchoes(err error, req *model.Request) error {
	failed, known := errors.AsType[*model.Error](err)
	if !known {
		return err
	}
	said := urls.ReplaceAllString(failed.Err.Error(), "…")
	for _, m := range req.Messages {
		for _, b := range m.Blocks {
			if a, is := b.(tree.Attachment); is {
				said = withoutParts(said, a.Name+" "+a.URL)
			}
		}
	}
	return &model.Error{Kind: failed.Kind, RetryAfter: failed.RetryAfter, Err: errors.New(said)}
}

// withoutParts removes from a text the parts of a name that look the same however it is quoted.
func withoutParts(said, name string) string {
	for _, part := range strings.FieldsFunc(name, isQuoted) {
		if len(part) >= minEcho {
			said = strings.ReplaceAll(said, part, "…")
		}
	}
	return said
}

// isQuoted reports whether a character may be written in another way in a quoted text.
func isQuoted(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"'`\\&<>", r) }

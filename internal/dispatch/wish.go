package dispatch

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// Wish says that a replica shows the text of a session to somebody while it is
// written, so that others who get such text send it there; or that it no longer does.
type Wish struct {
	Replica string
	Session tree.SessionID
	Over    bool
}

// Signs before the id of a session.
const (
	wishBegins = "+"
	wishEnds   = "-"
)

// wishesAtOnce is how many wishes are in one message.
const wishesAtOnce = 1000

// replicaBytes bounds the name of a replica that wishes for something.
const replicaBytes = 256

// Wish tells every listener of the installation but the sender what the sender wishes
// for, whatever the wishes say of whose they are. Who does not listen now is not told
// later: tell it again now and then.
func (b *Bus) Wish(ctx context.Context, from string, wishes ...Wish) error {
	for len(wishes) > 0 {
		some := wishes[:min(len(wishes), wishesAtOnce)]
		wishes = wishes[len(some):]
		if err := b.client.Publish(ctx, b.keys.wish(), writeWishes(from, some)).Err(); err != nil {
			return fmt.Errorf("wishing for text: %w", err)
		}
	}
	return nil
}

// writeWishes gives the text of wishes: whose they are, then each with its sign, with a
// space between them.
func writeWishes(from string, wishes []Wish) string {
	words := make([]string, 0, 1+len(wishes))
	words = append(words, url.QueryEscape(from))
	for _, w := range wishes {
		sign := wishBegins
		if w.Over {
			sign = wishEnds
		}
		words = append(words, sign+w.Session.String())
	}
	return strings.Join(words, " ")
}

// wished reads wishes, which anybody may have written.
func (b *Bus) wished(ctx context.Context, payload, self string, wished func(Wish)) {
	from, rest, _ := strings.Cut(payload, " ")
	name, err := url.QueryUnescape(from)
	if err != nil || name == "" || len(name) > replicaBytes {
		b.log.WarnContext(ctx, "a wish is nobody's", "bytes", len(from), "error", err)
		return
	}
	if name == self {
		return
	}
	for word := range strings.FieldsSeq(rest) {
		id, begins := strings.CutPrefix(word, wishBegins)
		id, ends := strings.CutPrefix(id, wishEnds)
		session, err := tree.ParseID[tree.Session](id)
		if err != nil || begins == ends {
			b.log.WarnContext(ctx, "a wish names nothing", "error", err)
			continue
		}
		wished(Wish{Replica: name, Session: session, Over: ends})
	}
}

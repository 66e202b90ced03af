package dispatch

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// Interest says that a replica shows the text of a session to somebody while it is
// written, so that others who get such text send it there; or that it no longer does.
type Interest struct {
	Replica string
	Session tree.SessionID
	Over    bool
}

// Signs before the id of a session.
const (
	interestBegins = "+"
	interestEnds   = "-"
)

// interestsPerMessage is how many wishes are in one message.
const interestsPerMessage = 1000

// maxReplicaNameBytes bounds the name of a replica that wishes for something.
const maxReplicaNameBytes = 256

// SendInterests tells every listener of the installation but the sender what the sender wishes
// for, whatever the wishes say of whose they are. Who does not listen now is not told
// later: tell it again now and then.
func (b *Bus) SendInterests(ctx context.Context, from string, wishes ...Interest) error {
	for len(wishes) > 0 {
		some := wishes[:min(len(wishes), interestsPerMessage)]
		wishes = wishes[len(some):]
		if err := b.client.Publish(ctx, b.keys.interest(), encodeInterests(from, some)).Err(); err != nil {
			return fmt.Errorf("wishing for text: %w", err)
		}
	}
	return nil
}

// encodeInterests gives the text of wishes: whose they are, then each with its sign, with a
// space between them.
func encodeInterests(from string, wishes []Interest) string {
	words := make([]string, 0, 1+len(wishes))
	words = append(words, url.QueryEscape(from))
	for _, w := range wishes {
		sign := interestBegins
		if w.Over {
			sign = interestEnds
		}
		words = append(words, sign+w.Session.String())
	}
	return strings.Join(words, " ")
}

// decodeInterests reads wishes, which anybody may have written.
func (b *Bus) decodeInterests(ctx context.Context, payload, self string, wished func(Interest)) {
	from, rest, _ := strings.Cut(payload, " ")
	name, err := url.QueryUnescape(from)
	if err != nil || name == "" || len(name) > maxReplicaNameBytes {
		b.log.WarnContext(ctx, "a wish is nobody's", "bytes", len(from), "error", err)
		return
	}
	if name == self {
		return
	}
	for word := range strings.FieldsSeq(rest) {
		id, begins := strings.CutPrefix(word, interestBegins)
		id, ends := strings.CutPrefix(id, interestEnds)
		session, err := tree.ParseID[tree.Session](id)
		if err != nil || begins == ends {
			b.log.WarnContext(ctx, "a wish names nothing", "error", err)
			continue
		}
		wished(Interest{Replica: name, Session: session, Over: ends})
	}
}

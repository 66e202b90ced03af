package dispatch

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/coppice-run/coppice/internal/tree"
)

// Interest says that a replica shows the text of a session to a watcher while it is written, so
// that other replicas send such text there; or, with Over, that it no longer does.
type Interest struct {
	Replica string
	Session tree.SessionID
	Over    bool
}

// The sign before a session's id.
const (
	interestBegins = "+"
	interestEnds   = "-"
)

// interestsPerMessage is the maximum number of interests in one message.
const interestsPerMessage = 1000

// maxReplicaNameBytes bounds the name of a replica in a message.
const maxReplicaNameBytes = 256

// SendInterests sends interests to all listeners of the installation except the sender. They are
// those of from, whatever their field Replica says. A listener that is not subscribed now does not
// get them later, so repeat them regularly.
func (b *Bus) SendInterests(ctx context.Context, from string, interests ...Interest) error {
	for len(interests) > 0 {
		batch := interests[:min(len(interests), interestsPerMessage)]
		interests = interests[len(batch):]
		if err := b.client.Publish(ctx, b.keys.interest(), encodeInterests(from, batch)).Err(); err != nil {
			return fmt.Errorf("sending interests in text: %w", err)
		}
	}
	return nil
}

// encodeInterests returns a message: the sender, then each session with its sign, separated by
// spaces.
func encodeInterests(from string, interests []Interest) string {
	words := make([]string, 0, 1+len(interests))
	words = append(words, url.QueryEscape(from))
	for _, i := range interests {
		sign := interestBegins
		if i.Over {
			sign = interestEnds
		}
		words = append(words, sign+i.Session.String())
	}
	return strings.Join(words, " ")
}

// decodeInterests passes the interests of a message to onInterest. The message is not trusted.
func (b *Bus) decodeInterests(ctx context.Context, payload, self string, onInterest func(Interest)) {
	from, rest, _ := strings.Cut(payload, " ")
	name, err := url.QueryUnescape(from)
	if err != nil || name == "" || len(name) > maxReplicaNameBytes {
		b.log.WarnContext(ctx, "an interest names no replica", "bytes", len(from), "error", err)
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
			b.log.WarnContext(ctx, "an interest names no session", "error", err)
			continue
		}
		onInterest(Interest{Replica: name, Session: session, Over: ends})
	}
}

package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/redis/go-redis/v9"

	"github.com/coppice-run/coppice/internal/tree"
)

// Piece is a piece of the text of a run, as its model writes it. Text is valid UTF-8.
type Piece struct {
	Session  tree.SessionID `json:"s"`
	Task     tree.TaskID    `json:"t"`
	Run      int            `json:"r"`
	Text     string         `json:"x"`
	Thinking bool           `json:"h,omitempty"`
	Restart  bool           `json:"a,omitempty"` // the text before this piece was given up; Text says why
}

// MaxPieceBytes is the maximum size of the text of a piece.
const MaxPieceBytes = 16 << 10

// maxTextMessageBytes bounds a message that is read: several pieces, with their text in the longest
// form that JSON allows.
const maxTextMessageBytes = 1 << 20

// check returns why a piece can't be shown.
func (p *Piece) check() error {
	switch {
	case p.Session.IsZero() || p.Task.IsZero():
		return errors.New("it names no task")
	case p.Run < 1 || p.Run > math.MaxInt32:
		return fmt.Errorf("there is no run %d", p.Run)
	case p.Text == "" || len(p.Text) > MaxPieceBytes:
		return fmt.Errorf("its text has %d bytes", len(p.Text))
	}
	return nil
}

// TextBatch is the pieces to send to one replica.
type TextBatch struct {
	To     string
	Pieces []Piece
}

// textMessage is a message with pieces. Numbers rise with each message of a sender.
type textMessage struct {
	From   string  `json:"from"`
	Number int64   `json:"number"`
	Pieces []Piece `json:"pieces"`
}

// SendText sends pieces to replicas, in one round trip. Each replica gets a piece at most once.
// Pieces arrive in the order of successive calls; of two concurrent calls, one may be dropped. A
// replica that is not subscribed now does not get them later.
func (b *Bus) SendText(ctx context.Context, from string, batches ...TextBatch) error {
	if len(batches) == 0 {
		return nil
	}
	number := b.textNumber.Add(1)
	pipe := b.client.Pipeline()
	for _, batch := range batches {
		data, err := encodeTextMessage(textMessage{From: from, Number: number, Pieces: batch.Pieces})
		if err != nil {
			return fmt.Errorf("sending text: %w", err)
		}
		publish := redis.NewIntCmd(ctx, "publish", b.keys.text(batch.To), data)
		if err := pipe.Process(ctx, noRetry{publish}); err != nil {
			return fmt.Errorf("sending text: %w", err)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("sending text: %w", err)
	}
	return nil
}

func encodeTextMessage(p textMessage) ([]byte, error) {
	var data bytes.Buffer
	out := json.NewEncoder(&data)
	out.SetEscapeHTML(false)
	err := out.Encode(p)
	return data.Bytes(), err
}

// ReceiveText calls onSubscribed whenever it has subscribed to the text for self, at first and
// after each reconnection. It calls show with each piece, one at a time. It has a connection of its
// own, so that text does not delay nudges.
//
// ReceiveText reconnects until ctx ends, and then returns nil. It fails only if the client has been
// closed.
func (b *Bus) ReceiveText(ctx context.Context, self string, onSubscribed func(), show func(Piece)) error {
	last := lastNumbers{}
	return b.subscribe(ctx, []string{b.keys.text(self)}, func(got any) {
		switch got := got.(type) {
		case *redis.Subscription:
			onSubscribed()
		case *redis.Message:
			if err := last.read(got.Payload, show); err != nil {
				b.log.WarnContext(ctx, "ignoring text of another replica that is not valid", "error", err)
			}
		}
	})
}

// lastNumbers holds the number of the last message of each sender. A message that arrives after a
// later one was delayed for so long that its sender had given it up.
type lastNumbers map[string]int64

// maxSenders bounds lastNumbers. If there are more senders, it is emptied.
const maxSenders = 1000

// read shows the pieces of a message, up to the first invalid one. The message is not trusted.
func (l lastNumbers) read(payload string, show func(Piece)) error {
	if len(payload) > maxTextMessageBytes {
		return fmt.Errorf("a text message has %d bytes", len(payload))
	}
	var p textMessage
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return fmt.Errorf("reading a text message: %w", err)
	}
	if p.From == "" || len(p.From) > maxReplicaNameBytes {
		return fmt.Errorf("the sender of a text message has %d bytes", len(p.From))
	}
	if p.Number <= l[p.From] {
		return nil
	}
	if len(l) >= maxSenders {
		clear(l)
	}
	l[p.From] = p.Number
	for i := range p.Pieces {
		if err := p.Pieces[i].check(); err != nil {
			return fmt.Errorf("piece %d of a text message: %w", i+1, err)
		}
		show(p.Pieces[i])
	}
	return nil
}

package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/coppice-run/coppice/internal/tree"
)

type requestKey struct {
	session tree.SessionID
	key     string
}

// request is the stored answer to a request with an idempotency key.
type request struct {
	hash   [32]byte
	answer tree.Answer
}

// requestKeys names the requests of a batch that may have been answered before.
func (b *batch) requestKeys(queued []*Pending) (requests [][]any) {
	for _, p := range queued {
		if p.key == nil {
			continue
		}
		key := requestKey{p.session, p.key.Key}
		if _, asked := b.requests[key]; !asked {
			b.requests[key] = nil
			requests = append(requests, []any{idColumn(&p.session), p.key.Key})
		}
	}
	return requests
}

// answered gives the stored answer to a request; nil if there is none. What was answered in a
// session that is being deleted does not count: its rows are not removed yet, but it does not exist.
func (b *batch) answered(p *Pending) *request {
	if p.key == nil {
		return nil
	}
	if s := b.sessions[p.session].view.Session(); s != nil && !s.DeletedAt.IsZero() {
		return nil
	}
	return b.requests[requestKey{p.session, p.key.Key}]
}

// replay answers a repeated request.
func (r *request) replay(hash [32]byte) commandResult {
	if r.hash != hash {
		return commandResult{err: tree.ErrKeyReused}
	}
	return commandResult{answer: r.answer}
}

// scanRequest takes in a stored request.
func (b *batch) scanRequest(row row) error {
	var key requestKey
	var hash, answer []byte
	if err := row.Scan(idColumn(&key.session), &key.key, &hash, &answer); err != nil {
		return err
	}
	r := &request{hash: [32]byte(hash)}
	var err error
	r.answer, err = decodeAnswer(answer)
	b.requests[key] = r
	return err
}

// storedAnswer is the stored form of an answer: exactly one field is set.
type storedAnswer struct {
	Created *tree.Created `json:"created,omitempty"`
	Sent    *tree.Sent    `json:"sent,omitempty"`
	Spawned *tree.Spawned `json:"spawned,omitempty"`

	Branched *tree.Branched `json:"branched,omitempty"`
}

func encodeAnswer(a tree.Answer) ([]byte, error) {
	var s storedAnswer
	switch a := a.(type) {
	case tree.Created:
		s.Created = &a
	case tree.Sent:
		s.Sent = &a
	case tree.Spawned:
		s.Spawned = &a
	case tree.Branched:
		s.Branched = &a
	default:
		return nil, fmt.Errorf("an answer of type %T can't be kept for a repeat", a)
	}
	return json.Marshal(s)
}

func decodeAnswer(data []byte) (tree.Answer, error) {
	var s storedAnswer
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading a stored answer: %w", err)
	}
	switch {
	case s.Created != nil && !s.Created.Session.IsZero() && !s.Created.Root.IsZero():
		return *s.Created, nil
	case s.Sent != nil && !s.Sent.Task.IsZero():
		return *s.Sent, nil
	case s.Spawned != nil && !s.Spawned.Task.IsZero():
		return *s.Spawned, nil
	case s.Branched != nil && !s.Branched.Task.IsZero():
		return *s.Branched, nil
	}
	return nil, errors.New("reading a stored answer: it is of no known type, or names nothing")
}

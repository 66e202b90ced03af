package store

import (
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// Page is a part of a list.
type Page[T any] struct {
	Rows []T
	Next string // the token of the page after it; empty if it is the last one

	token func(*T) string
}

// After gives the token of a page that begins after one of the rows, for who has no room for
// those that follow.
func (p *Page[T]) After(row int) string { return p.token(&p.Rows[row]) }

// pageOf makes a page of rows; last is the one that the next page begins after, nil if there is
// no next one.
func pageOf[T any](rows []T, last *T, token func(*T) string) Page[T] {
	p := Page[T]{Rows: rows, token: token}
	if last != nil {
		p.Next = token(last)
	}
	return p
}

// lastOf gives the last one of the rows that a query has found; nil if there are no more.
func lastOf[T any](found []T, size int) *T {
	if len(found) < size {
		return nil
	}
	return &found[len(found)-1]
}

// A page token is the time and the id of the last row of the page before.
func writeToken(t time.Time, id []byte) string {
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(id[:len(id):len(id)], uint64(t.UnixMicro())))
}

func readToken(token string, id []byte) (time.Time, error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(data) != len(id)+8 {
		return time.Time{}, tree.ErrBadInput.With("the page token is not one of ours")
	}
	copy(id, data)
	return time.UnixMicro(int64(binary.BigEndian.Uint64(data[len(id):]))), nil
}

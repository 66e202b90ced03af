package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// Page is one page of a list.
type Page[T any] struct {
	Rows []T
	Next string // the token of the next page; empty on the last page

	token func(*T) string
}

// After gives the token of the page that begins after one of the rows, for callers that have no
// room for the rest.
func (p *Page[T]) After(row int) string { return p.token(&p.Rows[row]) }

// pageOf makes a page. The next page begins after last; nil if there is none.
func pageOf[T any](rows []T, last *T, token func(*T) string) Page[T] {
	p := Page[T]{Rows: rows, token: token}
	if last != nil {
		p.Next = token(last)
	}
	return p
}

// lastOf gives the last of the rows; nil if there are no more after it.
func lastOf[T any](found []T, size int) *T {
	if len(found) < size {
		return nil
	}
	return &found[len(found)-1]
}

// list identifies a list in its page tokens: its kind, and whose or which part of it is listed.
type list [8]byte

func listOf(kind string, of ...any) (l list) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q", kind, of))
	copy(l[:], sum[:])
	return l
}

// token is the token of the page that begins after a row. It holds the id and the time of the row,
// and the list's identity.
func (l list) token(t time.Time, id []byte) string {
	data := binary.BigEndian.AppendUint64(id[:len(id):len(id)], uint64(t.UnixMicro()))
	return base64.RawURLEncoding.EncodeToString(append(data, l[:]...))
}

// after reads a token. An empty token is the beginning, and leaves id as it is. Tokens of the
// previous release do not identify their list.
func (l list) after(token string, id []byte) (time.Time, error) {
	if token == "" {
		return time.Time{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	marked := len(id) + 8
	if err != nil || len(data) != marked && (len(data) != marked+len(l) || list(data[marked:]) != l) {
		return time.Time{}, tree.ErrBadInput.With("the page token does not belong to this list")
	}
	copy(id, data)
	return time.UnixMicro(int64(binary.BigEndian.Uint64(data[len(id):]))), nil
}

package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/coppice-run/coppice/internal/yamltree"
)

// maxTokens bounds a file, because all tokens are kept in memory.
const maxTokens = 10_000

// Entry is the file format of a token.
type Entry struct {
	Name    string    `json:"name,omitempty"    yaml:"name,omitempty"`
	Role    Role      `json:"role"              yaml:"role"`
	Tenant  string    `json:"tenant,omitempty"  yaml:"tenant,omitempty"`
	SHA256  string    `json:"sha256"            yaml:"sha256"`
	Expires time.Time `json:"expires,omitzero"  yaml:"expires,omitempty"`
}

// tokenPrefix marks our tokens for secret scanners.
const tokenPrefix = "coppice_"

// tokenBytes is the number of random bytes in a token. With this many, a plain hash reveals
// nothing.
const tokenBytes = 32

// NewToken creates a token for an identity, and its entry for the file.
func NewToken(who Identity, expires time.Time) (string, Entry, error) {
	if err := who.Check(); err != nil {
		return "", Entry{}, err
	}
	if strings.ContainsFunc(who.Name, isBreaking) {
		return "", Entry{}, fmt.Errorf("the name %q has a tab, a line break or another control character", who.Name)
	}
	var secret [tokenBytes]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", Entry{}, fmt.Errorf("making a token: %w", err)
	}
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	return token, Entry{who.Name, who.Role, who.Tenant, hex.EncodeToString(sum[:]), expires.UTC().Truncate(time.Second)}, nil
}

// isBreaking reports whether a character may break the line of an entry.
func isBreaking(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) }

// grant is the identity of a token, until it expires.
type grant struct {
	who     Identity
	expires time.Time // zero: never
}

// grants are keyed by the hashes of the tokens.
type grants map[[sha256.Size]byte]grant

// Tokens maps tokens to identities. It is safe for concurrent use.
type Tokens struct {
	file *reloader[grants] // nil: only issued tokens are valid
	now  func() time.Time

	mu     sync.Mutex
	issued grants
}

// OpenTokens reads a YAML file with a list of at least one entry under the key tokens.
func OpenTokens(path string, log *slog.Logger) (*Tokens, error) {
	file, err := newReloader(log, func(contents [][]byte) (grants, error) { return parseTokens(contents[0]) }, path)
	if err != nil {
		return nil, err
	}
	return &Tokens{file: file, now: time.Now}, nil
}

// expiryFormats are those of a date, or a time, in YAML.
var expiryFormats = []string{"2006-1-2T15:4:5Z07:00", "2006-1-2t15:4:5Z07:00", "2006-1-2 15:4:5", "2006-1-2"}

// parseExpiry parses when a token expires; empty: never. The YAML package is not asked for a time,
// because it takes what it does not understand for none.
func parseExpiry(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, format := range expiryFormats {
		if t, err := time.Parse(format, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("expires is %q; it must be a time such as 2027-02-19T20:21:31Z", text)
}

// written is a text as the file has it. YAML takes some names for numbers, and 0123 for the same
// number as 83.
type written string

// UnmarshalYAML reads the text of a node.
func (w *written) UnmarshalYAML(node ast.Node) error {
	switch n := node.(type) {
	case *ast.TagNode:
		return w.UnmarshalYAML(n.Value)
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		*w = written(n.GetToken().Value)
		return nil
	}
	return yaml.NodeToValue(node, (*string)(w))
}

func parseTokens(data []byte) (grants, error) {
	var file struct {
		Tokens []struct {
			Name, Tenant    written
			Expires, SHA256 string
			Role            Role
		}
	}
	if err := yamltree.Decode(data, &file); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false)) // it quotes no line, so it reveals no secret
	}
	if len(file.Tokens) == 0 { // the file may be being written; an empty list would lock every caller out
		return nil, errors.New("the file has no tokens")
	}
	if len(file.Tokens) > maxTokens {
		return nil, fmt.Errorf("the file has %d tokens, the limit is %d", len(file.Tokens), maxTokens)
	}
	all := make(grants, len(file.Tokens))
	for i, e := range file.Tokens {
		g := grant{who: Identity{string(e.Name), string(e.Tenant), e.Role}}
		var err error
		if g.expires, err = parseExpiry(e.Expires); err == nil {
			err = g.who.Check()
		}
		if err != nil {
			return nil, fmt.Errorf("token %d, %q: %w", i+1, e.Name, err)
		}
		sum, err := hex.DecodeString(e.SHA256)
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("token %d, %q: sha256 must be 64 hexadecimal digits, the hash of the whole token; coppice token generates both", i+1, e.Name)
		}
		if _, there := all[[sha256.Size]byte(sum)]; there {
			return nil, fmt.Errorf("token %d, %q is listed twice", i+1, e.Name)
		}
		all[[sha256.Size]byte(sum)] = g
	}
	return all, nil
}

// Issue creates a token that is valid for the lifetime of this process.
func (t *Tokens) Issue(who Identity) (string, error) {
	token, _, err := NewToken(who, time.Time{})
	if err != nil {
		return "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.issued == nil {
		t.issued = grants{}
	}
	t.issued[sha256.Sum256([]byte(token))] = grant{who: who}
	return token, nil
}

// Identify returns the identity of a valid token. It is called for each message of a stream, so
// its cost does not depend on the number of tokens. The lookup is not constant-time. That may
// reveal something about hashes, but a hash does not reveal its token.
func (t *Tokens) Identify(token string) (Identity, bool) {
	g, ok := t.grant(sha256.Sum256(append(make([]byte, 0, 64), token...))) // on the stack, because our tokens are shorter than 64 bytes
	if !ok || !g.expires.IsZero() && !t.now().Before(g.expires) {
		return Identity{}, false
	}
	return g.who, true
}

func (t *Tokens) grant(sum [sha256.Size]byte) (grant, bool) {
	t.mu.Lock()
	g, ok := t.issued[sum]
	t.mu.Unlock()
	if !ok && t.file != nil {
		g, ok = t.file.get()[sum]
	}
	return g, ok
}

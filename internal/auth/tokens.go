package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/goccy/go-yaml"
)

// maxTokens bounds a file, all of which is kept.
const maxTokens = 10_000

// Entry is a token as the file has it.
type Entry struct {
	Name    string    `json:"name,omitempty"    yaml:"name,omitempty"`
	Role    Role      `json:"role"              yaml:"role"`
	Tenant  string    `json:"tenant,omitempty"  yaml:"tenant,omitempty"`
	SHA256  string    `json:"sha256"            yaml:"sha256"`
	Expires time.Time `json:"expires,omitzero"  yaml:"expires,omitempty"`
}

// tokenPrefix marks our tokens, so that scanners for lost secrets know them.
const tokenPrefix = "coppice_"

// tokenBytes is how much chance a token holds. With so much of it a plain hash
// gives nothing away.
const tokenBytes = 32

// NewToken makes a token for somebody, and the entry that lets it in.
func NewToken(who Identity, expires time.Time) (string, Entry, error) {
	if err := who.Check(); err != nil {
		return "", Entry{}, err
	}
	var secret [tokenBytes]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return "", Entry{}, fmt.Errorf("making a token: %w", err)
	}
	token := tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	sum := sha256.Sum256([]byte(token))
	return token, Entry{who.Name, who.Role, who.Tenant, hex.EncodeToString(sum[:]), expires.UTC().Truncate(time.Second)}, nil
}

// grant is what an entry lets somebody do.
type grant struct {
	who     Identity
	expires time.Time // zero: never
}

// grants are those of tokens, by their hashes.
type grants map[[sha256.Size]byte]grant

// Tokens says whose tokens are whose. It may be used by any number of goroutines.
type Tokens struct {
	file *reloader[grants] // nil: only those that were issued
	now  func() time.Time

	mu     sync.Mutex
	issued grants
}

// OpenTokens reads a file of tokens: a YAML list of entries, one or more, under the key tokens.
func OpenTokens(path string, log *slog.Logger) (*Tokens, error) {
	file, err := newReloader(log, func(contents [][]byte) (grants, error) { return parseTokens(contents[0]) }, path)
	if err != nil {
		return nil, err
	}
	return &Tokens{file: file, now: time.Now}, nil
}

func parseTokens(data []byte) (grants, error) {
	var file struct {
		Tokens []Entry `yaml:"tokens"`
	}
	if err := yaml.UnmarshalWithOptions(data, &file, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false)) // which quotes no line, and so no secret
	}
	if len(file.Tokens) == 0 { // as of one that is being written: nobody could call any more
		return nil, errors.New("there are no tokens")
	}
	if len(file.Tokens) > maxTokens {
		return nil, fmt.Errorf("there are %d tokens, at most %d", len(file.Tokens), maxTokens)
	}
	all := make(grants, len(file.Tokens))
	for i, e := range file.Tokens {
		g := grant{who: Identity{e.Name, e.Tenant, e.Role}, expires: e.Expires}
		if err := g.who.Check(); err != nil {
			return nil, fmt.Errorf("token %d, %q: %w", i+1, e.Name, err)
		}
		sum, err := hex.DecodeString(e.SHA256)
		if err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("token %d, %q: sha256 has to be 64 digits, of the whole token; coppice token makes both", i+1, e.Name)
		}
		if _, there := all[[sha256.Size]byte(sum)]; there {
			return nil, fmt.Errorf("token %d, %q is there twice", i+1, e.Name)
		}
		all[[sha256.Size]byte(sum)] = g
	}
	return all, nil
}

// Issue makes a token that counts as long as this process lives.
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

// Identify says whose token it is, if it counts at this moment. It is asked for each message of
// a stream, so it takes as long with ten thousand tokens as with one. How long it takes may
// say something of hashes, and from the hash of a token nobody gets to the token.
func (t *Tokens) Identify(token string) (Identity, bool) {
	g, ok := t.grant(sha256.Sum256(append(make([]byte, 0, 64), token...))) // on the stack, as ours are shorter
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

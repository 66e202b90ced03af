package fakellm

import (
	"crypto/sha256"
	"encoding/json"
	"hash"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/tree"
)

const (
	bytesPerToken  = 4 // the usual estimate
	minCachedBytes = 1024 * bytesPerToken
	cacheTTL       = 5 * time.Minute // since the last read or write
	// evictAbove is the number of prefixes from which expired ones are evicted.
	evictAbove = 10_000
)

// cache simulates Anthropic's prompt cache: the prefixes of prompts that end at a cache mark. A
// prefix can be read once an answer to it has started.
type cache struct {
	mu     sync.Mutex
	used   map[prefixKey]time.Time
	forget int // expired prefixes are evicted when there are more than this
}

type prefixKey [sha256.Size]byte

// prompt is the prompt of a request, with its marked prefixes, shortest first.
type prompt struct {
	size  int // in bytes
	marks []mark
}

type mark struct {
	key  prefixKey
	size int
}

// cachingAPI is an API with cache marks.
type cachingAPI interface {
	prompt(body []byte) (prompt, error)
}

// prompt reads the marks: first of the tools, then of the system prompt and of the
// conversation.
func (messages) prompt(body []byte) (p prompt, err error) {
	var in messagesRequest
	if err := json.Unmarshal(body, &in); err != nil {
		return p, err
	}
	h := sha256.New()
	p.add(h, in.Model, nil)
	for _, t := range in.Tools {
		p.add(h, []any{t.Name, t.Description, t.InputSchema}, t.Cache)
	}
	for _, b := range in.System {
		p.addBlock(h, "system", b)
	}
	for _, m := range in.Messages {
		for _, b := range m.Content {
			p.addBlock(h, m.Role, b)
		}
	}
	return p, nil
}

func (p *prompt) addBlock(h hash.Hash, role string, b block) {
	marked := b.Cache
	b.Cache = nil
	p.add(h, []any{role, b}, marked)
}

// add adds a part, which may have a mark.
func (p *prompt) add(h hash.Hash, part any, marked *struct{}) {
	text, err := json.Marshal(part)
	if err != nil {
		panic("what was read from JSON has no JSON form: " + err.Error())
	}
	h.Write(text)
	p.size += len(text)
	if marked != nil && p.size >= minCachedBytes {
		p.marks = append(p.marks, mark{prefixKey(h.Sum(nil)), p.size})
	}
}

// usage returns the input tokens of a request: it reads the cached prefix and writes everything
// that is marked.
func (c *cache) usage(p *prompt, now time.Time) (u tree.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	read, marked := 0, 0
	for _, m := range p.marks {
		if used, any := c.used[m.key]; any && now.Sub(used) < cacheTTL {
			read = m.size
		}
		marked = m.size
	}
	u.CacheRead, u.CacheWrite, u.Input = tokens(read), tokens(marked-read), tokens(p.size-marked)
	return u
}

// answerStarted makes the marked prefixes readable.
func (c *cache) answerStarted(p *prompt, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range p.marks {
		c.used[m.key] = now
	}
	if len(c.used) > c.forget {
		for key, used := range c.used {
			if now.Sub(used) >= cacheTTL {
				delete(c.used, key)
			}
		}
		c.forget = evictAbove + 2*len(c.used)
	}
}

func tokens(bytes int) int64 { return int64((bytes + bytesPerToken - 1) / bytesPerToken) }

// withUsage adds the cache usage to an answer, unless the answer has its own.
func withUsage(a *model.Answer, u tree.Usage) *model.Answer {
	if a.Usage.CacheRead+a.Usage.CacheWrite > 0 || u.CacheRead+u.CacheWrite == 0 {
		return a
	}
	out := *a
	u.Output = a.Usage.Output
	out.Usage = u
	return &out
}

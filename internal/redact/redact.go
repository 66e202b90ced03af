// Package redact takes known secrets out of text before it is stored, shown or
// logged.
//
// A secret is looked for as it is and in the forms that text on its way through
// programs takes: base64 at each of its three alignments, hex, and behind the
// escapes of URLs, JSON, HTML and shells, also when just some characters are
// escaped, twice, or when lines were broken in the middle of it. What is found is
// replaced by the name of the secret in brackets.
//
// It keeps secrets from getting into places by accident. It does not hold anybody
// back who wants to carry one out: text can be transformed in ways that nobody has
// foreseen, and a piece of a secret is not recognised.
package redact

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Secret is a text that has to stay where it is.
type Secret struct {
	Name  string // it may be shown
	Value string
}

// Redactor knows secrets. All its methods may be called at once, and with a nil
// Redactor, which knows none.
type Redactor struct {
	mu    sync.Mutex // held while secrets are added
	known []Secret
	table atomic.Pointer[table] // nil: no secrets
}

// New gives a Redactor that knows secrets, and says which of them it does not take.
func New(secrets ...Secret) (*Redactor, []Refusal) {
	r := &Redactor{}
	return r, r.Add(secrets...)
}

// Add makes further secrets known. It gives those that are not taken, since text
// would be full of them; each is told once for each call.
func (r *Redactor) Add(secrets ...Secret) []Refusal {
	var refused []Refusal
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.known)
	for _, s := range secrets {
		s.Value = strings.TrimSpace(s.Value)
		why := rejection(s)
		switch known := slices.ContainsFunc(r.known, func(k Secret) bool { return k.Value == s.Value }); {
		case s.Value == "" || known:
		case why != "":
			refused = append(refused, Refusal{Name: plainName(s.Name), Why: why})
		default:
			r.known = append(r.known, Secret{Name: plainName(s.Name), Value: s.Value})
		}
	}
	if len(r.known) > before {
		r.table.Store(newTable(r.known))
	}
	return refused
}

func (r *Redactor) secrets() *table {
	if r == nil {
		return nil
	}
	return r.table.Load()
}

// String gives text without secrets. Valid UTF-8 stays valid. It is also what
// attributes of traces go through.
func (r *Redactor) String(text string) string {
	t := r.secrets()
	if t == nil || !t.any(text) {
		return text
	}
	found, _ := t.regions(text, true)
	return replaced(text, found)
}

// None reports whether no secret is known.
func (r *Redactor) None() bool { return r.secrets() == nil }

// Has reports whether there is a secret in text.
func (r *Redactor) Has(text string) bool {
	t := r.secrets()
	return t != nil && t.any(text)
}

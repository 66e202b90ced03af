// Package redact removes known secrets from text before it is stored, shown or logged.
//
// It finds a secret as it is, and in the forms that programs convert text to: base64 in each of
// its three alignments, hex, and the escapes of URLs, JSON, HTML and shells. It also finds it
// if only some characters are escaped, if escapes are nested, and if line breaks were inserted.
// It replaces a secret with its name in brackets.
//
// It prevents accidental leaks. It does not stop someone who wants to leak a secret: text can
// be transformed in other ways, and a part of a secret is not recognised.
package redact

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Secret is a text that must not be shown.
type Secret struct {
	Name  string // can be shown
	Value string
}

// Redactor redacts its secrets. It is safe for concurrent use. A nil Redactor has no secrets.
type Redactor struct {
	mu    sync.Mutex // held while secrets are added
	known []Secret
	table atomic.Pointer[table] // nil: no secrets
}

// New returns a Redactor with secrets, and those that it refuses.
func New(secrets ...Secret) (*Redactor, []Refusal) {
	r := &Redactor{}
	return r, r.Add(secrets...)
}

// Add adds secrets. It returns those that it refuses because they would occur in ordinary text.
// Each call reports a refused secret once.
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

// String returns text without secrets. Valid UTF-8 stays valid. Attributes of traces pass
// through it as well.
func (r *Redactor) String(text string) string {
	t := r.secrets()
	if t == nil || !t.any(text) {
		return text
	}
	found, _ := t.regions(text, true)
	return replaced(text, found)
}

// None reports whether there are no secrets.
func (r *Redactor) None() bool { return r.secrets() == nil }

// Has reports whether text contains a secret.
func (r *Redactor) Has(text string) bool {
	t := r.secrets()
	return t != nil && t.any(text)
}

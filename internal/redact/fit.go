package redact

import (
	"os"
	"slices"
	"strings"
	"unicode"
)

// Bounds of a secret, in bytes. A short one is in too much text by chance.
const (
	minSecret = 8
	maxSecret = 64 << 10
	minDigits = 12 // of one that has digits only
	minLine   = 16 // of a line of a secret with several
)

// Refusal is a secret that is not looked for.
type Refusal struct{ Name, Why string }

// commonValues are values that say what they are for, and stand in ordinary text.
var commonValues = []string{
	"password", "passw0rd", "postgres", "postgresql", "changeme", "changeit", "change-me", "undefined", "disabled",
	"required", "optional", "anonymous", "localhost", "development", "production", "username", "database", "your-key",
	"your-api-key", "api-key", "not-needed", "placeholder", "redacted", "example", "default", "coppice-dev",
}

// rejection says why a secret can't be looked for; empty if it can.
func rejection(s Secret) string {
	v := s.Value
	switch {
	case len(v) < minSecret:
		return "it has less than 8 bytes"
	case len(v) > maxSecret:
		return "it has more than 64 KiB"
	case slices.Contains(commonValues, strings.ToLower(v)):
		return "it is a common word"
	case strings.Count(v, v[:1]) == len(v):
		return "it is one character again and again"
	case len(v) < minDigits && strings.Trim(v, "0123456789") == "":
		return "it is a short number"
	case strings.Contains(placeholder(plainName(s.Name)), v):
		return "it is its own name"
	}
	if _, err := os.Lstat(v); err == nil {
		return "it is the name of a file"
	}
	return ""
}

// plainName makes a name fit to stand in a placeholder, and within a JSON string.
func plainName(name string) string {
	const most = 64
	plain := strings.Map(func(c rune) rune {
		if c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c) || strings.ContainsRune("_-.: ", c)) {
			return c
		}
		return '_'
	}, name)
	if plain == "" {
		return "secret"
	}
	return plain[:min(len(plain), most)]
}

// placeholder is what is shown in the place of a secret.
func placeholder(name string) string { return "[redacted: " + name + "]" }

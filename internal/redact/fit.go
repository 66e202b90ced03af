package redact

import (
	"os"
	"slices"
	"strings"
	"unicode"
)

// Bounds of a secret, in bytes. A short one occurs in too much text by chance.
const (
	minSecret = 8
	maxSecret = 64 << 10
	minDigits = 12 // for a secret with only digits
	minLine   = 16 // for each line of a secret with several lines
)

// Refusal is a secret that is not redacted, with the reason.
type Refusal struct{ Name, Why string }

// commonValues are placeholder values that occur in ordinary text.
var commonValues = []string{
	"password", "passw0rd", "postgres", "postgresql", "changeme", "changeit", "change-me", "undefined", "disabled",
	"required", "optional", "anonymous", "localhost", "development", "production", "username", "database", "your-key",
	"your-api-key", "api-key", "not-needed", "placeholder", "redacted", "example", "default", "coppice-dev",
}

// rejection returns the reason why a secret cannot be redacted, or "".
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

// plainName makes a name safe for a placeholder, also inside a JSON string.
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

// placeholder returns the text that replaces a secret.
func placeholder(name string) string { return "[redacted: " + name + "]" }

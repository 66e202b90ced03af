package policy

import (
	"path"
	"strings"
	"unicode"
)

// simple reports whether a command line is one command and nothing more: it has
// no operator, no substitution, no redirection and no second line. What is quoted
// does not count, as far as a shell leaves it alone. In doubt it is not simple.
func simple(command string) bool {
	quote := rune(0)
	escaped := false
	for _, r := range strings.TrimSpace(command) {
		switch {
		case unicode.IsControl(r) && r != '\t':
			return false
		case escaped:
			escaped = false
		case quote == '\'':
			if r == '\'' {
				quote = 0
			}
		case r == '\\':
			escaped = true
		case r == '$' || r == '`':
			return false
		case quote == '"':
			if r == '"' {
				quote = 0
			}
		case r == '\'' || r == '"':
			quote = r
		case strings.ContainsRune(operators, r):
			return false
		}
	}
	return quote == 0 && !escaped
}

// operators are what a shell acts on outside of quotes.
const operators = ";&|<>(){}\n"

// parts gives a command line, and what may be commands in it: it is cut at every
// operator, quoted or not, and each piece is also shown without quotes, without
// the assignments before it, and without the directory of its program. A rule that
// denies is held against all of them. That catches what is written plainly; a
// shell has further ways to say the same.
func parts(command string) []string {
	found := []string{strings.TrimSpace(command)}
	pieces := strings.FieldsFunc(command, func(r rune) bool {
		return r == '$' || r == '`' || strings.ContainsRune(operators, r) || unicode.IsControl(r) && r != '\t'
	})
	for _, piece := range pieces {
		plain := strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(piece)
		words := strings.Fields(plain)
		for len(words) > 1 && assigns(words[0]) {
			words = words[1:]
		}
		found = append(found, strings.TrimSpace(piece), strings.TrimSpace(plain), strings.Join(words, " "))
		if len(words) > 0 {
			words[0] = path.Base(words[0])
			found = append(found, strings.Join(words, " "))
		}
	}
	return found
}

// assigns reports whether a word gives a variable its value.
func assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

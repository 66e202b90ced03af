package redact

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"
)

// forms returns the encoded forms of a secret to search for, each with at least minSecret
// bytes. Escapes are not among them, because they are undone in the text.
func forms(value string) []string {
	parts := []string{value}
	if lines := strings.FieldsFunc(value, func(c rune) bool { return c == '\n' || c == '\r' }); len(lines) > 1 {
		for _, line := range lines {
			line = strings.TrimSpace(line)
			if len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				parts = append(parts, line)
			}
		}
	}
	var all []string
	for _, part := range parts {
		if utf8.ValidString(part) {
			bare := unescaped(part)
			all = append(all, part, bare, strings.ReplaceAll(bare, " ", "+"))
			// Within quotes, shells and Python write a quotation mark like this.
			all = append(all, strings.ReplaceAll(part, "'", `'\''`), strings.ReplaceAll(part, "'", `'"'"'`))
		}
		low := hex.EncodeToString([]byte(part))
		all = append(all, low, strings.ToUpper(low))
		for alignment := range 3 {
			core := base64Core(part, alignment)
			all = append(all, core, strings.NewReplacer("+", "-", "/", "_").Replace(core))
		}
	}
	seen := map[string]bool{}
	var out []string
	for _, form := range all {
		if len(form) >= minSecret && !seen[form] {
			seen[form] = true
			out = append(out, form)
		}
	}
	return out
}

// base64Core returns the base64 characters of a value that do not depend on its neighbours, if
// before bytes of its group of three precede it.
func base64Core(value string, before int) string {
	const group = 3 // bytes, which become four characters
	text := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("\x00", before) + value))
	bits := 8 * (before + len(value))
	first := (8*before + 5) / 6 //nolint:mnd // eight bits a byte, six a character
	last := bits / 6            //nolint:mnd // likewise
	if before%group == 0 {
		first = 0
	}
	return text[first:last]
}

// unescaped undoes all escapes.
func unescaped(text string) string {
	for range escapeLevels {
		out, changed := unescapeOnce(nil, text)
		if !changed {
			break
		}
		text = string(out)
	}
	return text
}

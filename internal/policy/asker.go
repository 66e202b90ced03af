package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"unicode/utf8"
)

// Asker is what asks about a call: a rule, or the mode.
type Asker struct {
	Rule string   // empty: the mode
	For  []string // of the mode: what the call is about as well, beside the argument that is shown, such as where a link leads
}

// Askers gives what asks about a call of a tool, of which an argument is shown. The mode has named
// the very call, under each name that it has; it is given once.
func Askers(tool, argument string, rules []string) []Asker {
	var all []Asker
	mode := -1
	for _, rule := range rules {
		name, of := strings.CutPrefix(rule, tool+"=")
		if !of {
			all = append(all, Asker{Rule: rule})
			continue
		}
		if mode < 0 {
			mode = len(all)
			all = append(all, Asker{})
		}
		if !namesArgument(name, argument) && !slices.Contains(all[mode].For, name) {
			all[mode].For = append(all[mode].For, name)
		}
	}
	return all
}

// Text names it for a reader, who is shown texts so.
func (a Asker) Text(shown func(string) string) string {
	if a.Rule != "" {
		return shown(a.Rule)
	}
	if len(a.For) == 0 {
		return "the mode"
	}
	var all []string
	for _, name := range a.For {
		all = append(all, shown(name))
	}
	return "the mode (for " + strings.Join(all, ", ") + ")"
}

// isName reports whether what stands in the name of a call is its argument. Of a long one that is
// its beginning: the argument that is shown may be cut, or have secrets taken out, and then has
// another digest.
func namesArgument(name, argument string) bool {
	if name == argument {
		return true
	}
	at := len(name) - len(digestMark) - hex.EncodedLen(sha256.Size)
	return at > maxCallName-utf8.UTFMax && strings.HasPrefix(name[at:], digestMark) && strings.HasPrefix(argument, name[:at])
}

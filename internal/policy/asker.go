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
	For  []string // of the mode: further names of the argument, such as the target of a link
}

// Askers returns what asks about a call of a tool. argument is the argument that is shown. The
// mode names the call once under each name of its argument; Askers returns the mode once.
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

// Text describes the asker. show formats texts for the reader.
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

// namesArgument reports whether the argument in a call name is the argument that is shown. For a
// long argument only the beginning is compared: the shown argument may be cut or redacted, and
// then has another digest.
func namesArgument(name, argument string) bool {
	if name == argument {
		return true
	}
	at := len(name) - len(digestMark) - hex.EncodedLen(sha256.Size)
	return at > maxCallName-utf8.UTFMax && strings.HasPrefix(name[at:], digestMark) && strings.HasPrefix(argument, name[:at])
}

package cli

import (
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/flags"
)

// hasFlag reports whether a flag is on the command line.
func (a *app) hasFlag(name string) bool {
	return slices.ContainsFunc(a.typed, func(f flags.Typed) bool { return f.Name == name })
}

// refuseEmpty refuses flags with an empty value on the command line: a script uses a variable that
// is not set.
func (a *app) refuseEmpty(names ...string) error {
	for _, f := range a.typed {
		if slices.Contains(names, f.Name) && len(f.Words) > 0 && f.Words[len(f.Words)-1] == "" {
			return usagef("--%s is empty", f.Name)
		}
	}
	return nil
}

// typedFlags returns those of the named flags that are on the command line, for use in another
// command line. Each word follows a space.
func (a *app) typedFlags(names ...string) string {
	var said strings.Builder
	for _, flag := range a.typed {
		if !slices.Contains(names, flag.Name) {
			continue
		}
		for _, word := range flag.Words {
			said.WriteString(" " + shellWord(word))
		}
	}
	return said.String()
}

// shellWord quotes a text for a shell.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,=-"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

package cli

import (
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/flags"
)

// types reports whether the command line says a flag.
func (a *app) hasFlag(name string) bool {
	return slices.ContainsFunc(a.typed, func(f flags.Typed) bool { return f.Name == name })
}

// typedOf is what the command line says of some flags, for another one: each word after a space.
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

// shellWord is a text as a word of a line for a shell.
func shellWord(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,=-"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

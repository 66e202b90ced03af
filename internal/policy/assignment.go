package policy

import (
	"iter"
	"path"
	"strings"
	"unicode/utf8"
)

// maxRescans bounds how often a command line is read in search of assignments, whatever its quotes.
const maxRescans = 16

// assignedCommands yields the commands of a line that follow assignments whose values may contain
// blanks and operators, each with the operator after it. Assignments may begin after every operator,
// quoted or not.
func assignedCommands(line string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !strings.Contains(line, "=") {
			return
		}
		budget := maxRescans * len(line)
		for text := line; budget > 0; {
			from, read := carriedFrom(text)
			budget -= read + 1
			command := text[from:]
			if strings.ContainsAny(text[:from], quoting) && !yield(command[:operatorEnd(command)]) {
				return
			}
			if text = text[operatorEnd(text):]; text == "" {
				return
			}
		}
	}
}

// operatorEnd returns the end of the first character of a text at which a command may end.
func operatorEnd(text string) int {
	at := strings.IndexFunc(text, endsCommand)
	if at < 0 {
		return len(text)
	}
	_, size := utf8.DecodeRuneInString(text[at:])
	return at + size
}

// quoting are the characters with which a word may contain a blank or an operator.
const quoting = "\"'\\$"

// carriedFrom returns where the command begins that follows the assignments, and the programs that
// run another one, at the beginning of a text, and how much of the text was read.
func carriedFrom(text string) (from, read int) {
	for {
		from = len(text) - len(strings.TrimLeft(text[read:], " \t"))
		read = from + wordLen(text[from:])
		word := text[from:read]
		if word == "" || !isAssignment(word) && !wrappers[path.Base(word)] {
			return from, read
		}
	}
}

// wordLen returns the length of the word at the beginning of a text. Quoted text belongs to it.
func wordLen(text string) int {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.IndexByte(" \t\n;&|<>()`", c) >= 0:
			return i
		}
	}
	return len(text)
}

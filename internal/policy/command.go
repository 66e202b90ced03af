package policy

import (
	"path"
	"strings"
	"unicode"
)

// commands cuts a command line into the plain commands that it joins with ;, &&, ||
// and |. What is quoted does not count, as far as a shell leaves it alone. It gives
// nothing for a line with more in it: a substitution, a redirection, a group, a job
// in the background, a second line. In doubt there is more in it.
func commands(line string) []string {
	if strings.ContainsFunc(line, control) {
		return nil
	}
	var found []string
	line = strings.TrimSpace(line)
	quote, from := byte(0), 0
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote == '\'':
			if c == quote {
				quote = 0
			}
		case c == '\\':
			if i++; i == len(line) {
				return nil
			}
		case c == '$' || c == '`':
			return nil
		case quote == '"':
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case joins(line[i:]) > 0:
			found = append(found, line[from:i])
			from = i + joins(line[i:])
			i = from - 1
		case strings.IndexByte(operators, c) >= 0:
			return nil
		}
	}
	found = append(found, line[from:])
	for i, command := range found {
		if found[i] = strings.TrimSpace(command); found[i] == "" || quote != 0 {
			return nil
		}
	}
	return found
}

// joins gives the length of the operator between two commands that a text begins
// with; 0 if it begins with none.
func joins(text string) int {
	switch {
	case strings.HasPrefix(text, "&&"), strings.HasPrefix(text, "||"):
		return 2
	case strings.HasPrefix(text, ";"), strings.HasPrefix(text, "|") && !strings.HasPrefix(text, "|&"):
		return 1
	}
	return 0
}

// control reports whether a character ends a line or hides what comes after it.
func control(r rune) bool { return unicode.IsControl(r) && r != '\t' }

// operators are what a shell acts on outside of quotes.
const operators = ";&|<>(){}\n"

// argued has a word stand before what a shell puts an argument in the place of, and
// writes out the blanks that are written otherwise.
var argued = strings.NewReplacer("${IFS}", " ", "$IFS", " ", "$", " …$", "`", " …`", "{", " …{", "<", " …<")

// parts gives a command line, and what may be commands in it: it is cut at every
// operator, quoted or not, and each piece is also shown plain. A rule that denies is
// held against all of them. That catches what is written plainly; a shell has further
// ways to say the same.
func parts(line string) []string {
	found := []string{strings.TrimSpace(line)}
	pieces := strings.FieldsFunc(argued.Replace(line), func(r rune) bool {
		return r == '$' || r == '`' || strings.ContainsRune(operators, r) || control(r)
	})
	for _, piece := range pieces {
		found = append(found, strings.TrimSpace(piece))
		found = append(found, plain(piece)...)
		if strings.ContainsRune(line, '{') {
			found = append(found, plain(strings.ReplaceAll(piece, ",", " "))...)
		}
	}
	return found
}

// plain gives what a piece of a command line is without quotes, without what comes
// before the command (assignments, programs that run another one), and without the
// directory of its program.
func plain(piece string) []string {
	piece = strings.NewReplacer(`"`, "", `'`, "", `\`, "").Replace(piece)
	found := []string{strings.TrimSpace(piece)}
	words := strings.Fields(piece)
	for carried := false; len(words) > 0; words = words[1:] {
		program := path.Base(words[0])
		found = append(found, strings.Join(words, " "), strings.Join(append([]string{program}, words[1:]...), " "))
		carried = carried || carriers[program]
		if !carried && !assigns(words[0]) {
			break
		}
	}
	return found
}

// carriers are words before a command that is run all the same. After one of them
// any word may begin it.
var carriers = wordSet(`! if then elif else do while until time coproc command builtin exec eval env sudo doas su
	nohup nice ionice setsid stdbuf timeout xargs parallel watch find strace ltrace bash sh dash zsh ksh busybox trap
	chroot unshare nsenter flock script source .`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(words) {
		set[word] = true
	}
	return set
}

// assigns reports whether a word gives a variable its value.
func assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

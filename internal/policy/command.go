package policy

import (
	"iter"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// commands cuts a command line into the plain commands that it joins with ;, &&, ||
// and |. What is quoted does not count, as far as a shell leaves it alone. It gives
// nothing for a line with more in it: a substitution, a redirection, a group, a job
// in the background, a second line. In doubt there is more in it.
func commands(line string) []string {
	line = strings.Trim(line, " \t\n") // a line break that ends it begins no other
	if strings.ContainsFunc(line, isControl) {
		return nil
	}
	var found []string
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
		case joinerLen(line[i:]) > 0:
			found = append(found, line[from:i])
			from = i + joinerLen(line[i:])
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
func joinerLen(text string) int {
	switch {
	case strings.HasPrefix(text, "&&"), strings.HasPrefix(text, "||"):
		return 2
	case strings.HasPrefix(text, ";"), strings.HasPrefix(text, "|") && !strings.HasPrefix(text, "|&"):
		return 1
	}
	return 0
}

// control reports whether a character ends a line or hides what comes after it.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' }

// operators are what a shell acts on outside of quotes.
const operators = ";&|<>(){}\n"

// argued has a word stand before what a shell puts an argument in the place of, and
// writes out the blanks that are written otherwise.
var argumentMarks = strings.NewReplacer("${IFS}", " ", "$IFS", " ", "$", " …$", "`", " …`", "{", " …{", "<", " …<")

// parts gives a command line, and what may be commands in it: it is cut at every
// operator, quoted or not, and each piece is also shown plain, and without what belongs to
// a redirection that cuts it. A rule that denies is held against all of them. That catches what is written plainly; a shell has further
// ways to say the same. Of a long line there are many: they are made one after another.
func candidates(line string) iter.Seq[candidate] {
	lists := strings.ContainsRune(line, '{')
	return func(yield func(candidate) bool) {
		if !yield(candidate{text: strings.TrimSpace(line)}) {
			return
		}
		for piece := range pieces(argumentMarks.Replace(line)) {
			if !yield(candidate{text: strings.TrimSpace(piece)}) || !yieldPlain(piece, yield) {
				return
			}
			if lists && !yieldPlain(strings.ReplaceAll(piece, ",", " "), yield) {
				return
			}
		}
	}
}

// pieces cuts a text where a command may end.
func pieces(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			end := strings.IndexFunc(text, endsCommand)
			if end < 0 {
				yield(text)
				return
			}
			piece := text[:end]
			if piece != "" && !yield(piece) {
				return
			}
			if bare := withoutRedirection(piece, text[end:]); bare != piece && bare != "" && !yield(bare) {
				return
			}
			_, size := utf8.DecodeRuneInString(text[end:])
			text = text[end+size:]
		}
	}
}

// undirected gives a piece of a command line without what belongs to the redirection
// that may come after it: the number of what is redirected, and the word that stands
// for an argument.
func withoutRedirection(piece, rest string) string {
	if rest[0] != '>' && rest[0] != '<' || strings.HasPrefix(rest, "<(") {
		return piece
	}
	if rest[0] == '<' {
		piece = strings.TrimSuffix(piece, " …")
	}
	bare := strings.TrimRight(piece, "0123456789")
	if bare == "" || strings.HasSuffix(bare, " ") || strings.HasSuffix(bare, "\t") {
		return bare
	}
	return piece
}

// ends reports whether a command may end at a character.
func endsCommand(r rune) bool {
	return r == '$' || r == '`' || strings.ContainsRune(operators, r) || isControl(r)
}

// shown is a text that may be a command. If it has heads, it is words with a blank between
// them, and each of the first so many words may begin the command, with the directory of
// its program or without.
type candidate struct {
	text  string
	heads int
}

// unquoted leaves out what quotes.
var quoteRemover = strings.NewReplacer(`"`, "", `'`, "", `\`, "")

// plain shows what a piece of a command line is without quotes, without what comes
// before the command (assignments, programs that run another one), and without the
// directory of its program. It reports whether more is wanted.
func yieldPlain(piece string, yield func(candidate) bool) bool {
	piece = quoteRemover.Replace(piece)
	words := strings.Fields(piece)
	return yield(candidate{text: strings.TrimSpace(piece)}) &&
		(len(words) == 0 || yield(candidate{strings.Join(words, " "), heads(words)}))
}

// heads counts the words that may begin a command.
func heads(words []string) int {
	carried := false
	for i, word := range words {
		carried = carried || wrappers[path.Base(word)]
		if !carried && !isAssignment(word) {
			return i + 1
		}
	}
	return len(words)
}

// matcher holds a glob against one text after another.
type matcher struct{ state, programName matchState }

func newMatcher(g glob) *matcher { return &matcher{newMatchState(g, false), newMatchState(g, false)} }

// match reports whether the glob is over a text from one of its beginnings on. It goes
// through the text once, however many these are.
func (m *matcher) match(s candidate) bool {
	m.state.reset()
	if s.heads == 0 {
		m.state.start()
	}
	text := s.text
	for range s.heads {
		word, rest, more := strings.Cut(text, " ")
		m.startAt(word)
		if more {
			m.state.advance(" ")
		}
		text = rest
	}
	m.state.advance(text)
	return m.state.accepts()
}

// head goes on with a word that may begin a command.
func (m *matcher) startAt(word string) {
	m.state.start()
	name := path.Base(word)
	from := strings.LastIndex(word, name)
	m.state.advance(word[:from])
	if from+len(name) == len(word) {
		m.state.start()
		m.state.advance(name)
		return
	}
	// A slash at its end belongs to the word, but not to the name of its program.
	m.programName.start()
	m.programName.advance(name)
	m.state.advance(word[from:])
	m.state.merge(&m.programName)
}

// carriers are words before a command that is run all the same. After one of them
// any word may begin it.
var wrappers = wordSet(`! if then elif else do while until time coproc command builtin exec eval env sudo doas su
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
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

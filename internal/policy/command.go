package policy

import (
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// commands splits a command line into the plain commands that it joins with ;, &&, || and |.
// Operators inside quotes do not count, as far as a shell ignores them there. It returns nil for a
// line that contains anything else, such as a substitution, a redirection, a group, a background
// job or a second line. In doubt it returns nil.
func commands(line string) []string {
	line = strings.Trim(line, " \t\n") // a trailing line break does not begin another line
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

// GlobsApply reports whether rules with globs can allow a command line. Only a rule without one
// allows the others, or a mode.
func GlobsApply(line string) bool { return len(commands(line)) > 0 }

// joinerLen returns the length of the operator between two commands at the beginning of a text; 0
// if there is none.
func joinerLen(text string) int {
	switch {
	case strings.HasPrefix(text, "&&"), strings.HasPrefix(text, "||"):
		return 2
	case strings.HasPrefix(text, ";"), strings.HasPrefix(text, "|") && !strings.HasPrefix(text, "|&"):
		return 1
	}
	return 0
}

// isControl reports whether a character ends a line or hides what follows it.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\t' }

// operators are the characters that a shell acts on outside of quotes.
const operators = ";&|<>(){}\n"

// argumentMarks inserts a placeholder word where a shell substitutes an argument, and replaces
// alternative spellings of a blank.
var argumentMarks = strings.NewReplacer("${IFS}", " ", "$IFS", " ", "$", " …$", "`", " …`", "{", " …{", "<", " …<")

// redirections matches a redirection with its file descriptor and its word. The first group is what
// precedes the file descriptor. A word that contains both quotes and operators is left alone: its
// first quote may as well be the end of another text.
var redirections = regexp.MustCompile(`(?:(^|[ \t\n;&|<>(){}])[0-9]+|&)?[<>]+[&|]?[ \t]*` +
	`(?:"[^";&|<>()\n]*"|'[^';&|<>()\n]*'|[^ \t\n;&|<>(){}"'\x60])[^ \t\n;&|<>(){}"'\x60]*`)

// candidates yields a command line and all parts of it that may be commands. The line is cut at
// every operator, quoted or not. Each piece is also yielded in plain form, and without the parts
// of a redirection. The same is done with the line without its redirections, and with what follows
// assignments with quotes. A rule that denies is matched against all of them. This catches commands
// that are written plainly; a shell has further ways to write the same. A long line has many
// candidates, so they are generated one at a time.
func candidates(line string) iter.Seq[candidate] {
	return func(yield func(candidate) bool) {
		if !yield(candidate{text: strings.TrimSpace(line)}) || !yieldAll(line, yield) {
			return
		}
		if strings.ContainsAny(line, "<>") {
			yieldAll(redirections.ReplaceAllString(line, "$1"), yield)
		}
	}
}

// yieldAll yields the pieces of a command line, and those of the commands that follow assignments.
// It reports whether the caller wants more.
func yieldAll(line string, yield func(candidate) bool) bool {
	if !yieldParts(line, yield) {
		return false
	}
	for command := range assignedCommands(line) {
		if !yieldParts(command, yield) {
			return false
		}
	}
	return true
}

// yieldParts yields the pieces of a command line. It reports whether the caller wants more.
func yieldParts(line string, yield func(candidate) bool) bool {
	lists := strings.ContainsRune(line, '{')
	for piece := range pieces(argumentMarks.Replace(line)) {
		if !yield(candidate{text: strings.TrimSpace(piece)}) || !yieldPlain(piece, yield) {
			return false
		}
		if lists && !yieldPlain(strings.ReplaceAll(piece, ",", " "), yield) {
			return false
		}
	}
	return true
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

// withoutRedirection removes from a piece what belongs to the redirection that follows it: the
// file descriptor, and the placeholder word.
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

// endsCommand reports whether a command may end at a character.
func endsCommand(r rune) bool {
	return r == '$' || r == '`' || strings.ContainsRune(operators, r) || isControl(r)
}

// candidate is a text that may be a command. If heads is not 0, the text is words separated by one
// blank, and each of the first heads words may begin the command, with or without the directory of
// its program.
type candidate struct {
	text  string
	heads int
}

// quoteRemover removes quote characters.
var quoteRemover = strings.NewReplacer(`"`, "", `'`, "", `\`, "")

// yieldPlain yields a piece of a command line without quotes, without what precedes the command
// (assignments, and programs that run another program), and without the directory of its program.
// If one of these programs adds arguments, the piece is yielded with one more, too. It reports
// whether the caller wants more.
func yieldPlain(piece string, yield func(candidate) bool) bool {
	piece = quoteRemover.Replace(piece)
	if !yield(candidate{text: strings.TrimSpace(piece)}) {
		return false
	}
	words := strings.Fields(piece)
	if len(words) == 0 {
		return true
	}
	plain := candidate{strings.Join(words, " "), heads(words)}
	if !yield(plain) {
		return false
	}
	// The last word is the command at most.
	if !slices.ContainsFunc(words[:min(plain.heads, len(words)-1)], addsArguments) {
		return true
	}
	return yield(candidate{plain.text + " …", plain.heads})
}

// addsArguments reports whether a word is a program that runs a command with arguments of its own.
func addsArguments(word string) bool {
	name := path.Base(word)
	return name == "xargs" || name == "parallel"
}

// heads returns how many words may begin a command.
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

// matcher matches a glob against one text after another.
type matcher struct{ state, programName matchState }

func newMatcher(g glob) *matcher { return &matcher{newMatchState(g, false), newMatchState(g, false)} }

// match reports whether the glob matches the text from any of its possible beginnings. It reads
// the text only once, however many beginnings there are.
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

// startAt processes a word that may begin a command.
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

// wrappers are words that run the command that follows them. After a wrapper, any word may begin
// the command.
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

// isAssignment reports whether a word assigns a variable, appends to it, or sets an element of it.
func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	name = strings.TrimSuffix(name, "+")
	if strings.HasSuffix(name, "]") {
		name, _, _ = strings.Cut(name, "[")
	}
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

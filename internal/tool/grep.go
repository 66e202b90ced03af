package tool

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/model"
)

//go:embed grep.md
var grepProse string

var grepSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "The regular expression (RE2 syntax) to look for in each line."},
    "path": {"type": "string", "maxLength": 4096, "description": "The file or directory to search. Default: the workspace itself."},
    "glob": {"type": "string", "maxLength": 1000, "description": "Search only files whose path matches, e.g. *.go (at any depth) or docs/**/*.md"},
    "output_mode": {"type": "string", "enum": ["files_with_matches", "content", "count"], "description": "files_with_matches (default): one path a line. content: path:line number:text of each line that matches. count: path:number of lines that match."},
    "case_insensitive": {"type": "boolean", "description": "Take upper and lower case as the same. Default: false."},
    "head_limit": {"type": "integer", "minimum": 1, "maximum": 100000, "description": "Give at most so many lines of output."}
  },
  "required": ["pattern"],
  "additionalProperties": false
}`)

const (
	// grepLine is how much of a line is searched, grepShown how much is shown.
	grepLine  = 1 << 20
	grepShown = 500
	// maxProgram bounds the cost of a regular expression per character.
	maxProgram = 5000
	// quickLine is the length up to which a line is matched in one go. On a longer line the match
	// stops when the context ends.
	quickLine = 4 << 10
	// maxHead bounds head_limit.
	maxHead = 100_000
)

// The output modes.
const (
	grepFiles   = "files_with_matches"
	grepContent = "content"
	grepCount   = "count"
)

type grepTool struct{}

func (grepTool) Spec() model.ToolSpec {
	return model.ToolSpec{Name: "grep", Description: grepProse, Schema: grepSchema}
}

func (grepTool) Effect() Effect { return EffectNone }

// Check: see [Checked].
func (grepTool) Check(call Call) error {
	_, err := parseGrep(call.Input)
	return err
}

func (grepTool) Call(ctx context.Context, call Call) Outcome {
	in, err := parseGrep(call.Input)
	if err != nil {
		return failed(err)
	}
	return result(grep(ctx, call.Workspace, in))
}

type grepInput struct {
	pattern          *regexp.Regexp
	path, glob, mode string
	head             int
}

func parseGrep(raw json.RawMessage) (grepInput, error) {
	in := newInput(raw)
	pattern := in.required("pattern", maxPattern)
	parsed := grepInput{
		path: in.optional("path", ".", maxPath),
		glob: in.optional("glob", "", maxPattern),
		mode: in.choice("output_mode", grepFiles, grepFiles, grepContent, grepCount),
		head: int(in.number("head_limit", 0, 1, maxHead)),
	}
	ignoreCase := in.flag("case_insensitive", false)
	err := in.err()
	if err == nil {
		err = checkRelativeGlob(parsed.glob)
	}
	if err == nil {
		parsed.pattern, err = compile(pattern, ignoreCase)
	}
	return parsed, err
}

// checkRelativeGlob refuses a glob that is malformed, slow, or matches no path relative to the directory
// that is searched: finding nothing would say something else.
func checkRelativeGlob(glob string) error {
	if strings.HasPrefix(glob, "/") || strings.HasPrefix(glob, "../") {
		return fmt.Errorf("wrong input: glob: %q matches nothing: it is compared with paths relative to the directory that is searched; put the directory into path", glob)
	}
	return checkGlob("glob", glob)
}

// compile refuses an expression that is malformed or slow to match.
func compile(pattern string, ignoreCase bool) (*regexp.Regexp, error) {
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("wrong input: pattern: %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("wrong input: pattern: %w", err)
	}
	if len(program.Inst) > maxProgram {
		return nil, errors.New("wrong input: pattern: too large once its repetitions are written out; use smaller ones")
	}
	return regexp.Compile(pattern)
}

func grep(ctx context.Context, w *Workspace, in grepInput) (string, error) {
	start, err := w.rel(in.path)
	if err != nil {
		return "", err
	}
	info, err := w.stat(start)
	if err != nil {
		return "", err
	}
	s := &search{grepInput: in, workspace: w, lines: newLineReader(grepLine), out: listing{limit: in.head}}
	if info.IsDir() {
		s.searchDir(ctx, start)
	} else if s.matchesGlob(path.Base(start)) {
		err = s.searchFile(ctx, start)
	}
	if err := errors.Join(err, ctx.Err()); err != nil {
		return "", err
	}
	s.out.noteLong(s.long)
	if s.full {
		s.out.noteCut("the first %d lines of output shown, there are more; use a narrower pattern, path or glob, or another output_mode", s.out.lines)
	}
	return s.out.textOr("No matches found"), nil
}

// search is one grep in progress.
type search struct {
	grepInput
	workspace *Workspace
	lines     *lineReader
	out       listing
	full      bool // the output is full: stop
	long      int  // files that were searched only up to a line that is too long
}

// searchDir searches the text files below a directory.
func (s *search) searchDir(ctx context.Context, start string) {
	skipped := 0
	for name, err := range s.workspace.files(ctx, start) {
		if err == nil && s.matchesGlob(below(start, name)) {
			err = s.searchFile(ctx, name)
		}
		if err != nil && !errors.Is(err, errBinary) {
			skipped++
		}
		if s.full {
			break
		}
	}
	s.out.noteSkipped(skipped)
}

// matchesGlob reports whether the glob matches a path. A glob without a slash is matched against
// the file name only.
func (s *search) matchesGlob(name string) bool {
	if s.glob == "" {
		return true
	}
	if !strings.Contains(s.glob, "/") {
		name = path.Base(name)
	}
	return doublestar.MatchUnvalidated(strings.TrimPrefix(s.glob, "./"), name)
}

func (s *search) searchFile(ctx context.Context, name string) (err error) {
	file, err := s.workspace.openText(ctx, name, s.lines)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	matches := 0
	for number := 1; !s.full; number++ {
		line, size, err := s.lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLongLine) {
			s.long++
			break
		}
		if err != nil {
			return pathError(name, err)
		}
		if text, marked := bytes.CutPrefix(line, []byte(byteOrderMark)); marked && number == 1 {
			line, size = text, size-int64(len(byteOrderMark))
		}
		if !s.match(ctx, line) {
			continue
		}
		matches++
		if s.mode == grepFiles {
			s.addLine(displayPath(name))
			return nil
		}
		if s.mode == grepContent {
			s.addLine(fmt.Sprintf("%s:%d:%s", displayPath(name), number, s.shown(ctx, line, size)))
		}
	}
	if matches > 0 && s.mode == grepCount {
		s.addLine(fmt.Sprintf("%s:%d", displayPath(name), matches))
	}
	return nil
}

// shown returns a line that matches. Of a long one it is the part around the first match: a line may
// be a whole document, of which the beginning does not show why it matches.
func (s *search) shown(ctx context.Context, line []byte, size int64) string {
	const before = grepShown / 5
	if size <= grepShown {
		return printable(line, size, grepShown)
	}
	at := s.pattern.FindReaderIndex(readRunesUntil(ctx, bytes.NewReader(line)))
	if at == nil || at[1] <= grepShown {
		return printable(line, size, grepShown)
	}
	rest := excerpt.Tail(string(line), len(line)-max(0, at[0]-before))
	skipped := len(line) - len(rest)
	if size <= maxLine { // otherwise its length is not known
		size -= int64(skipped)
	}
	return fmt.Sprintf("(%d bytes of this line not shown) …%s", skipped, printable([]byte(rest), size, grepShown))
}

func (s *search) addLine(line string) { s.full = !s.out.add(line) }

func (s *search) match(ctx context.Context, line []byte) bool {
	if len(line) <= quickLine {
		return s.pattern.Match(line)
	}
	return s.pattern.MatchReader(readRunesUntil(ctx, bytes.NewReader(line)))
}

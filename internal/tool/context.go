package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of what a sub-agent is told from files.
const (
	maxContextFiles     = 20
	maxContextFileBytes = 64 << 10  // of one file
	maxContextBytes     = 256 << 10 // of all
	maxContextText      = 250_000   // characters of context text
)

// context is what a sub-agent is told beside its prompt: the text, each file that can
// be read, and which can't. A file that can't be read does not stop the task.
func (w *Workspace) contextParts(ctx context.Context, text string, files []string) []string {
	var parts []string
	if text != "" {
		parts = append(parts, "Context that comes with the task:\n"+text)
	}
	room := maxContextBytes
	var failed []string
	for _, name := range files {
		content, err := w.contextFile(ctx, name, min(room, maxContextFileBytes))
		if err != nil {
			failed = append(failed, fmt.Sprintf("- %s", printable([]byte(err.Error()), int64(len(err.Error())), maxError)))
			continue
		}
		room -= len(content)
		parts = append(parts, fmt.Sprintf("File %s, as it was when you got the task:\n%s", displayPath(name), content))
	}
	if len(failed) > 0 {
		parts = append(parts, "Files that were meant to come with the task and could not be read:\n"+strings.Join(failed, "\n"))
	}
	return parts
}

// contextFile gives the start of a text file, at most limit bytes of it.
func (w *Workspace) contextFile(ctx context.Context, name string, limit int) (content string, err error) {
	if limit <= 0 {
		return "", fmt.Errorf("%s: left out, since all files together may have %d bytes; read it yourself", displayPath(name), maxContextBytes)
	}
	path, err := w.rel(name)
	if err != nil {
		return "", err
	}
	lines := newLineReader(limit)
	file, err := w.openText(ctx, path, lines)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var out strings.Builder
	for number := 1; ; number++ {
		line, size, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return out.String(), nil
		case err != nil:
			return "", pathError(path, err)
		}
		text := validText(line)
		if out.Len()+len(text)+1 > limit || size > int64(len(line)) {
			fmt.Fprintf(&out, "[cut: the file goes on with line %d; read it yourself if you need the rest]\n", number)
			return out.String(), nil
		}
		out.WriteString(text)
		out.WriteByte('\n')
	}
}

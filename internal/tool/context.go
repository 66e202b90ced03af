package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// Bounds of the context of a sub-agent.
const (
	maxContextFiles     = 20
	maxContextFileBytes = 64 << 10  // of one file
	maxContextBytes     = 256 << 10 // of all
	maxContextText      = 250_000   // characters of context text
)

// contextParts returns the context of a sub-agent: the text, the content of each readable file,
// and a list of the others. A file that cannot be read does not fail the task.
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

// contextFile returns the beginning of a text file, at most limit bytes.
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
		text := excerpt.Valid(string(line))
		if out.Len()+len(text) > limit || size > int64(len(line)) {
			fmt.Fprintf(&out, "[cut: the file goes on with line %d; read it yourself if you need the rest]\n", number)
			return out.String(), nil
		}
		out.WriteString(text)
		out.WriteByte('\n')
	}
}

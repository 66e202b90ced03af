package tool

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
)

// OutputDir is the directory of a workspace with output that was too long for results.
const OutputDir = ".coppice/output"

// WorktreesDir is the directory of a workspace with the worktrees of sub-agents.
const WorktreesDir = ".coppice/worktrees"

// Bounds of the output directory. The oldest files are removed first.
const (
	maxOutputFileBytes = 64 << 20  // bytes of one file
	maxOutputDirBytes  = 256 << 20 // bytes of all files
	maxOutputFiles     = 100
	maxOutputScan      = 10_000 // entries that are examined; commands may have created more

	outputFileMode     = 0o600
	outputDirMode      = 0o700
	outputExt          = ".txt"
	maxOutputNameBytes = 40 // bytes of the tool's name at the beginning of a file name
)

// Excerpt shortens a text to at most limit bytes for a result. A longer text keeps its head and
// its tail. A line between them says how much is left out, and which file of the workspace
// contains the whole text. The file is named after tool. If the text cannot be saved, or w is nil,
// the line says only how much is left out. The text must be without secrets.
func (w *Workspace) Excerpt(tool, text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	room := max(0, limit-noteReserve)
	head := headLines(text, room/3*2)
	rest := text[len(head):]
	tail := tailLines(rest, room-len(head))
	note := fmt.Sprintf("[cut: %d bytes in the middle are not shown", len(rest)-len(tail))
	if w != nil {
		note += w.saveNote(tool, text)
	}
	return fmt.Sprintf("%s\n%s]\n%s", head, note, tail)
}

// FitResult makes the text of a tool that is not built in fit for a result: valid UTF-8 without
// NUL and secrets, and an [Workspace.Excerpt] if it is long.
func (c Call) FitResult(tool, text string) string {
	return c.Workspace.Excerpt(tool, c.clean(text), maxOutput)
}

// clean returns a text fit to be stored.
func (c Call) clean(text string) string { return c.Secrets.String(excerpt.Valid(text)) }

// saveNote saves a text and returns a note on where it is, or why it could not be saved.
func (w *Workspace) saveNote(tool, text string) string {
	name, err := w.saveOutput(tool, excerpt.Head(text, maxOutputFileBytes))
	switch {
	case err != nil:
		text := pathError(OutputDir, err).Error()
		return "; the whole could not be kept: " + excerpt.Head(excerpt.Valid(text), noteReserve/4)
	case len(text) > maxOutputFileBytes:
		return fmt.Sprintf("; the first %d bytes are in the file %s", maxOutputFileBytes, name)
	}
	return fmt.Sprintf("; the whole is in the file %s", name)
}

// saveOutput writes a text to a new file.
func (w *Workspace) saveOutput(tool, text string) (name string, err error) {
	if err := w.makeOutputDir(); err != nil {
		return "", err
	}
	if err := w.evictOutput(len(text)); err != nil {
		return "", err
	}
	name = path.Join(OutputDir, fileName(tool)+"-"+strings.ToLower(rand.Text())+outputExt)
	if err := w.createFile(name, text); err != nil {
		return "", errors.Join(err, w.root.Remove(filepath.FromSlash(name)))
	}
	return name, nil
}

// makeOutputDir creates the output directory, which git ignores. It refuses symbolic links:
// evictOutput must not delete files elsewhere.
func (w *Workspace) makeOutputDir() error {
	for _, dir := range []string{path.Dir(OutputDir), OutputDir} {
		err := w.root.Mkdir(filepath.FromSlash(dir), outputDirMode)
		if err == nil {
			err = chownToParent(w.root, filepath.FromSlash(dir))
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		info, err := w.root.Lstat(filepath.FromSlash(dir))
		if err != nil {
			return err
		}
		if !info.IsDir() {
			return errors.New("not a directory")
		}
	}
	err := w.createFile(path.Join(OutputDir, ".gitignore"), "*\n")
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// createFile writes a new file.
func (w *Workspace) createFile(name, text string) error {
	file, err := MakeFile(w.root, filepath.FromSlash(name), outputFileMode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	return errors.Join(err, file.Close())
}

// evictOutput removes the oldest files until one more file of size bytes fits, except for those of
// commands that still run. Other processes may do the same concurrently.
func (w *Workspace) evictOutput(size int) error {
	files, err := w.outputFiles()
	if err != nil {
		return err
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(b.ModTime().Compare(a.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	count, bytes := 1, int64(size)
	for _, f := range files {
		count++
		bytes += f.Size()
		if count <= maxOutputFiles && bytes <= maxOutputDirBytes {
			continue
		}
		name := path.Join(OutputDir, f.Name())
		if w.isBeingWritten(name) {
			continue
		}
		err := w.root.Remove(filepath.FromSlash(name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// outputFiles returns the files in the output directory that have our extension, of the entries
// that are examined.
func (w *Workspace) outputFiles() (_ []fs.FileInfo, err error) {
	dir, err := w.open(OutputDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	return w.outputFilesIn(dir)
}

func (w *Workspace) outputFilesIn(dir fs.ReadDirFile) ([]fs.FileInfo, error) {
	var files []fs.FileInfo
	for seen := 0; seen < maxOutputScan; {
		some, err := dir.ReadDir(maxOutputFiles)
		seen += len(some)
		for _, d := range some {
			if !d.Type().IsRegular() || !strings.HasSuffix(d.Name(), outputExt) {
				continue
			}
			info, err := w.root.Lstat(filepath.FromSlash(path.Join(OutputDir, d.Name())))
			if err == nil { // otherwise it was removed meanwhile
				files = append(files, info)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

// fileName makes the name of a tool usable in a file name.
func fileName(tool string) string {
	safe := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}
	return excerpt.Head(strings.Map(safe, tool), maxOutputNameBytes)
}

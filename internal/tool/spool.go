package tool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// outputDir is where the workspace keeps what commands have printed. Version control
// does not see it.
const outputDir = ".coppice/output"

// outputFile is the name of the file for a command's output.
func outputFile(label string) string { return path.Join(outputDir, label+".txt") }

// createOutput makes a file below the directory of outputs, in the place of one of
// the same name. Whatever a command has put there leads it nowhere else.
func (w *Workspace) createOutput(name string) (io.WriteCloser, error) {
	if err := w.root.MkdirAll(outputDir, newDirMode); err != nil {
		return nil, fmt.Errorf("making %s: %w", outputDir, err)
	}
	if err := w.ignoreOutput(); err != nil {
		return nil, err
	}
	if err := w.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, pathError(name, err)
	}
	file, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFileMode)
	if err != nil {
		return nil, pathError(name, err)
	}
	return file, nil
}

// ignoreOutput has version control ignore the directory of outputs.
func (w *Workspace) ignoreOutput() error {
	name := path.Join(outputDir, ".gitignore")
	file, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, newFileMode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return pathError(name, err)
	}
	_, err = file.WriteString("*\n")
	return errors.Join(err, file.Close())
}

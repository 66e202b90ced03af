package tool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	// maxFile bounds a file that is changed, before and after the change, in bytes.
	maxFile = 1 << 20
	// maxText bounds a text in one call, in characters, so that it always fits into a file.
	maxText = maxFile / utf8.UTFMax

	newFileMode  = 0o644
	newDirMode   = 0o755
	writableBits = 0o222
	// tempPrefix begins the name of a temporary file. A crash may leave one behind.
	tempPrefix = ".coppice-"
)

// textFile is a file before a change.
type textFile struct {
	content string
	mode    fs.FileMode
	owner   owner
}

// editFunc returns the new content of a file, and the result for the model. before is nil if the
// file does not exist.
type editFunc func(before *textFile) (after, said string, err error)

// change changes or creates one file, if the model has seen its current content. The change is
// atomic for readers. Changes through one Workspace are serialised; another process can still
// change the file between the check and the change.
func change(ctx context.Context, call Call, file string, to editFunc) (string, error) {
	w := call.Workspace
	name, err := w.rel(file)
	if err != nil {
		return "", err
	}
	w.changing.Lock()
	defer w.changing.Unlock()
	before, err := w.readForChange(ctx, name)
	if err != nil {
		return "", err
	}
	if before != nil {
		if err := checkSeen(call, name, before.content); err != nil {
			return "", err
		}
	}
	after, said, err := to(before)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := w.replace(name, after, before); err != nil {
		return "", fmt.Errorf("%w; nothing was changed", pathError(name, err))
	}
	return withVersion(said, versionOf(after)), nil
}

// checkSeen returns an error if the model has not seen the current content of a file.
func checkSeen(call Call, name, content string) error {
	switch lastSeen(call.Past, call.Workspace, name) {
	case versionOf(content):
		return nil
	case "":
		return fmt.Errorf("%s: there is such a file and you have not seen what is in it: read it first", displayPath(name))
	}
	return fmt.Errorf("%s: has changed since you last saw it: read it again", displayPath(name))
}

// readForChange reads a text file that is to be changed; nil if it does not exist.
func (w *Workspace) readForChange(ctx context.Context, name string) (_ *textFile, err error) {
	info, err := w.root.Lstat(filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // a missing file is not an error: it will be created
	case err != nil:
		return nil, pathError(name, err)
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s: a symbolic link: name the file that it leads to", displayPath(name))
	}
	file, err := w.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err = file.Stat(); err != nil {
		return nil, pathError(name, err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory", displayPath(name))
	}
	if info.Mode()&writableBits == 0 {
		return nil, fmt.Errorf("%s: is write-protected", displayPath(name)) // a rename would ignore that
	}
	content, err := io.ReadAll(io.LimitReader(readUntil(ctx, file), maxFile+1))
	switch {
	case err != nil:
		return nil, pathError(name, err)
	case len(content) > maxFile:
		return nil, fmt.Errorf("%s: has %d bytes, a file that is changed may have %d", displayPath(name), info.Size(), maxFile)
	case !utf8.Valid(content) || strings.ContainsRune(string(content), 0):
		return nil, fmt.Errorf("%s: not a text in UTF-8, and no other file is changed", displayPath(name))
	}
	owner, err := ownerOf(info)
	if err != nil {
		return nil, pathError(name, err)
	}
	return &textFile{content: string(content), mode: info.Mode().Perm(), owner: owner}, nil
}

// replace replaces a file atomically. The new file gets the mode and the owner of the old one, if
// there is one.
func (w *Workspace) replace(name, content string, before *textFile) (err error) {
	dir := path.Dir(name)
	if err := MakeDirs(w.root, filepath.FromSlash(dir), newDirMode); err != nil {
		return err
	}
	mode := fs.FileMode(newFileMode)
	if before != nil {
		mode = before.mode
	}
	draft := filepath.FromSlash(path.Join(dir, tempPrefix+rand.Text()))
	file, err := MakeFile(w.root, draft, mode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, content)
	if err == nil && before != nil {
		err = errors.Join(before.owner.apply(file.Chown), file.Chmod(mode)) // regardless of the umask
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = w.root.Rename(draft, filepath.FromSlash(name))
	}
	if err != nil {
		return errors.Join(err, w.root.Remove(draft))
	}
	return nil
}

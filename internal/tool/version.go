package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"iter"
	"slices"
	"strings"
)

// Which versions of files a model has seen follows from its transcript alone: results about a whole
// file end with a line that contains its version. So the information survives every crash, a fork
// inherits it, and files whose results were summarised have to be read again.

const (
	versionHead, versionTail = "[version ", "]"
	// versionBytes is how much of a digest makes a version.
	versionBytes = 8
)

// digest computes the version of what is written to it.
type digest struct {
	sum  hash.Hash
	size int64
}

func newDigest() *digest { return &digest{sum: sha256.New()} }

// Write never fails. Beyond maxFile it only counts, because no tool changes such a file.
func (d *digest) Write(p []byte) (int, error) {
	if d.size += int64(len(p)); d.size <= maxFile {
		d.sum.Write(p)
	}
	return len(p), nil
}

// version returns "" if the file is too large to be changed.
func (d *digest) version() string {
	if d.size > maxFile {
		return ""
	}
	return hex.EncodeToString(d.sum.Sum(nil)[:versionBytes])
}

func versionOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:versionBytes])
}

// withVersion appends the version of a file to a result.
func withVersion(text, version string) string {
	if version == "" {
		return text
	}
	return fmt.Sprintf("%s\n%s%s%s", text, versionHead, version, versionTail)
}

// versionIn returns the version at the end of a result; empty if there is none. A line of a file
// cannot be mistaken for a version, because read puts a number before each line.
func versionIn(result string) string {
	line := result[strings.LastIndexByte(result, '\n')+1:]
	version, head := strings.CutPrefix(line, versionHead)
	version, tail := strings.CutSuffix(version, versionTail)
	if !head || !tail || len(version) != 2*versionBytes {
		return ""
	}
	return version
}

// lastSeen returns the version of a file that the model has seen last; empty if it has seen none.
func lastSeen(past iter.Seq[Past], w *Workspace, name string) string {
	if past == nil {
		return ""
	}
	seen := ""
	for p := range past {
		if p.IsError || !slices.Contains([]string{readName, writeName, editName}, p.Tool) {
			continue
		}
		if at, err := w.rel(textField(p.Input, "path")); err != nil || at != name {
			continue
		}
		if version := versionIn(p.Text); version != "" {
			seen = version
		}
	}
	return seen
}

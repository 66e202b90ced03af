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

// Which files a model has seen, and how they were, follows from its transcript
// alone: results that are about a whole file end with a line that tells its version.
// So it survives every crash, a fork inherits it, and what was summed up has to be
// read again.

const (
	versionHead, versionTail = "[version ", "]"
	// versionBytes is how much of a digest makes a version.
	versionBytes = 8
)

// digest makes the version of what is written to it.
type digest struct {
	sum  hash.Hash
	size int64
}

func newDigest() *digest { return &digest{sum: sha256.New()} }

// Write never fails. Beyond maxFile it only counts: no tool changes such a file.
func (d *digest) Write(p []byte) (int, error) {
	if d.size += int64(len(p)); d.size <= maxFile {
		d.sum.Write(p)
	}
	return len(p), nil
}

// version is empty if there was more than a file has that may be changed.
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

// withVersion ends a result with the version of the file that it is about.
func withVersion(text, version string) string {
	if version == "" {
		return text
	}
	return fmt.Sprintf("%s\n%s%s%s", text, versionHead, version, versionTail)
}

// versionIn gives the version that a result ends with; empty if there is none. No
// line of a file is taken for one: read puts a number before each.
func versionIn(result string) string {
	line := result[strings.LastIndexByte(result, '\n')+1:]
	version, head := strings.CutPrefix(line, versionHead)
	version, tail := strings.CutSuffix(version, versionTail)
	if !head || !tail || len(version) != 2*versionBytes {
		return ""
	}
	return version
}

// lastSeen gives the version of a file that a model has seen last; empty if it has
// seen none.
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

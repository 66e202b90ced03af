package installation

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// sources returns the first fileBytes of files of Go's standard library, as text like agents
// read it. It excludes tests and generated files.
func sources(ctx context.Context) ([][]byte, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("asking where Go is: %w", err)
	}
	var texts [][]byte
	for _, folder := range []string{"net/http", "encoding", "go"} {
		folder = filepath.Join(strings.TrimSpace(string(root)), "src", filepath.FromSlash(folder))
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return fs.SkipDir
			case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil && len(text) >= fileBytes && !bytes.Contains(text, []byte("DO NOT EDIT")) {
				texts = append(texts, text[:fileBytes])
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(texts) < files {
		return nil, fmt.Errorf("there are %d files, and %d are needed", len(texts), files)
	}
	return texts[:files], nil
}

// noise returns fileBytes of text that does not compress below three quarters of its size.
func noise(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // the text must be reproducible
	var text []byte
	for len(text) < fileBytes {
		var line [57]byte
		for n := range line {
			line[n] = byte(r.Uint32())
		}
		text = append(base64.StdEncoding.AppendEncode(text, line[:]), '\n')
	}
	text = text[:fileBytes-1]
	return append(text, '\n')
}

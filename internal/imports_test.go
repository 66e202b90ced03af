package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/coppice-run/coppice/"

// allowed says which of our packages each package may import. Two chains, and
// all edges point down: cmd → api → orchestrator → store, dispatch → wire → tree
// and cmd → worker → loop → model, tool → tree.
var allowed = map[string][]string{
	"internal":                {},
	"internal/tree":           {},
	"internal/gen/coppice/v1": {},
	"internal/agentdef":       {"internal/tree"},
	"internal/model":          {"internal/tree"},
	"internal/model/scripted": {"internal/model", "internal/tree"},
	"internal/tool":           {"internal/model", "internal/tree"},
	"internal/loop":           {"internal/model", "internal/tool", "internal/tree"},
	"internal/wire":           {"internal/gen/coppice/v1", "internal/tree"},
	"internal/dispatch":       {"internal/tree"},
	"internal/store":          {"internal/gen/coppice/v1", "internal/tree", "internal/wire"},
	"internal/store/storetest": {
		"internal/gen/coppice/v1", "internal/store", "internal/tree", "internal/wire",
	},
	"internal/orchestrator": {
		"internal/agentdef", "internal/dispatch", "internal/gen/coppice/v1", "internal/store",
		"internal/tree", "internal/wire",
	},
	"internal/api": {
		"internal/agentdef", "internal/gen/coppice/v1", "internal/orchestrator", "internal/tree", "internal/wire",
	},
	"internal/worker": {
		"internal/agentdef", "internal/dispatch", "internal/gen/coppice/v1", "internal/loop", "internal/model",
		"internal/tool", "internal/tree", "internal/wire",
	},
	"internal/assembly": {
		"internal/agentdef", "internal/api", "internal/dispatch", "internal/gen/coppice/v1", "internal/model",
		"internal/orchestrator", "internal/store", "internal/tool", "internal/tree", "internal/worker",
	},
	"internal/cli": {
		"internal/assembly", "internal/gen/coppice/v1", "internal/model", "internal/model/scripted", "internal/tree",
	},
	"internal/redistest": {},
	"cmd/coppice":        {"internal/cli"},
	"cmd/orchestrator":   {"internal/assembly", "internal/tree"},
	"cmd/worker":         {"internal/assembly", "internal/model/scripted"},
}

// pure packages decide; they reach for nothing outside.
var pure = map[string]bool{"internal/tree": true}

var impure = regexp.MustCompile(`^(os|io|io/.*|net|net/.*|database/.*|syscall|log|log/.*|google\.golang\.org/.*)$`)

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		pkg := filepath.ToSlash(filepath.Dir(f.path))
		edges, known := allowed[pkg]
		if !known {
			t.Errorf("%s: the package is not in the table of allowed imports: add a line for it", pkg)
			continue
		}
		for _, spec := range f.syntax.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if ours, ok := strings.CutPrefix(path, module); ok && !slices.Contains(edges, ours) {
				t.Errorf("%s imports %s, which it may not", f.path, ours)
			}
			if pure[pkg] && impure.MatchString(path) {
				t.Errorf("%s imports %s; the package does no I/O", f.path, path)
			}
		}
	}
}

// TestStatusesAreMadeInOnePlace keeps gRPC's codes in the table of internal/wire.
func TestStatusesAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if pkg := filepath.ToSlash(filepath.Dir(f.path)); pkg == "internal/wire" || strings.HasPrefix(pkg, "internal/gen/") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "status" &&
				(call.Sel.Name == "Error" || call.Sel.Name == "Errorf" || call.Sel.Name == "New" || call.Sel.Name == "Newf") {
				t.Errorf("%s makes a status with status.%s; that is internal/wire's", f.path, call.Sel.Name)
			}
			return true
		})
	}
}

type source struct {
	path   string // from the root of the module
	syntax *ast.File
}

// sources parses all Go files of the module but tests.
func sources(t *testing.T) []source {
	t.Helper()
	root := os.DirFS("..")
	var found []source
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "tools" || path == "bench" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		found = append(found, source{path, syntax})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 20 {
		t.Fatalf("found only %d files", len(found))
	}
	return found
}

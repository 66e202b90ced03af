package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/coppice-run/coppice/"

// allowed says which of our packages each package may import. Two chains, and
// all edges point down: cmd → api → orchestrator → store, dispatch → wire → tree
// and cmd → worker → loop → model, tool → tree. Tests are free; what only they
// import (authtest, jaegertest, proctest, pgtest, redistest, otlptest, storetest) is in nobody's list.
var allowed = map[string][]string{
	".":                       {},
	"internal":                {},
	"internal/excerpt":        {},
	"internal/policy":         {"internal/excerpt"},
	"internal/tree":           {"internal/excerpt", "internal/policy"},
	"internal/gen/coppice/v1": {},
	"internal/transcript":     {"internal/tree"},
	"internal/hook":           {"internal/excerpt", "internal/redact", "internal/tree", "internal/yamltree"},
	"internal/outbound":       {},
	"internal/alive":          {},
	"internal/route":          {},
	"internal/flags":          {},
	"internal/yamltree":       {},
	"internal/rawconn":        {},
	"internal/firstbyte":      {},
	"internal/auth":           {"internal/rawconn", "internal/yamltree"},
	"internal/auth/authtest":  {},
	"internal/callback":       {"internal/outbound"},
	"internal/agentdef":       {"internal/hook", "internal/policy", "internal/tree", "internal/yamltree"},
	"internal/model":          {"internal/tree"},
	"internal/model/scripted": {"internal/model", "internal/tree", "internal/yamltree"},
	"internal/telemetry":      {"internal/model", "internal/policy", "internal/tree"},
	"internal/model/price":    {"internal/tree", "internal/yamltree"},
	// Vendors' types stop in the packages named after them.
	"internal/model/conversation": {"internal/tree"},
	"internal/model/upstream":     {"internal/model", "internal/tree"},
	"internal/model/anthropic": {
		"internal/model", "internal/model/conversation", "internal/model/upstream", "internal/tree",
	},
	"internal/model/openai": {
		"internal/model", "internal/model/conversation", "internal/model/upstream", "internal/tree",
	},
	"internal/model/ratelimit": {},
	"internal/model/retry":     {"internal/model", "internal/model/ratelimit"},
	"internal/model/primer":    {"internal/model"},
	"internal/model/provider": {
		"internal/model", "internal/model/anthropic", "internal/model/ratelimit", "internal/model/openai",
		"internal/model/retry", "internal/model/primer", "internal/model/scripted", "internal/model/upstream",
	},
	"internal/model/fakellm": {"internal/model", "internal/model/upstream", "internal/tree"},
	"internal/skill":         {"internal/excerpt"},
	"internal/redact":        {"internal/excerpt"},
	"internal/sandbox":       {},
	"internal/tool":          {"internal/excerpt", "internal/model", "internal/outbound", "internal/policy", "internal/redact", "internal/sandbox", "internal/skill", "internal/tree"},
	"internal/workspace":     {"internal/excerpt", "internal/sandbox", "internal/tool", "internal/tree"},
	"internal/mcp":           {"internal/excerpt", "internal/model", "internal/outbound", "internal/policy", "internal/sandbox", "internal/tool", "internal/yamltree"},
	"internal/loop":          {"internal/excerpt", "internal/model", "internal/policy", "internal/redact", "internal/tool", "internal/transcript", "internal/tree"},
	"internal/wire":          {"internal/gen/coppice/v1", "internal/policy", "internal/tree"},
	"internal/dispatch":      {"internal/tree"},
	"internal/store": {
		"internal/gen/coppice/v1", "internal/rawconn", "internal/redact", "internal/transcript", "internal/tree", "internal/wire",
	},
	"internal/store/storetest": {
		"internal/gen/coppice/v1", "internal/policy", "internal/store", "internal/tree", "internal/wire",
	},
	"internal/orchestrator": {
		"internal/agentdef", "internal/alive", "internal/callback", "internal/dispatch", "internal/excerpt", "internal/gen/coppice/v1", "internal/policy", "internal/model/price", "internal/redact", "internal/store",
		"internal/transcript", "internal/telemetry", "internal/tree", "internal/wire",
	},
	"internal/api": {
		"internal/agentdef", "internal/auth", "internal/firstbyte", "internal/gen/coppice/v1", "internal/orchestrator", "internal/redact", "internal/transcript", "internal/telemetry",
		"internal/tree", "internal/wire",
	},
	"internal/worker": {
		"internal/agentdef", "internal/dispatch", "internal/gen/coppice/v1", "internal/hook", "internal/loop", "internal/model",
		"internal/policy", "internal/redact", "internal/route", "internal/skill", "internal/tool", "internal/telemetry", "internal/transcript", "internal/tree", "internal/wire", "internal/workspace",
	},
	"internal/assembly": {
		"internal/agentdef", "internal/alive", "internal/api", "internal/auth", "internal/callback", "internal/dispatch", "internal/firstbyte", "internal/flags", "internal/gen/coppice/v1", "internal/hook", "internal/mcp", "internal/model",
		"internal/loop", "internal/model/ratelimit", "internal/model/price", "internal/orchestrator", "internal/outbound", "internal/rawconn", "internal/redact", "internal/route", "internal/sandbox", "internal/store", "internal/tool",
		"internal/telemetry", "internal/tree", "internal/worker", "internal/workspace",
	},
	"internal/drill": {"internal/dispatch", "internal/gen/coppice/v1", "internal/wire"},
	"internal/cli": {
		"internal/alive", "internal/assembly", "internal/auth", "internal/callback", "internal/drill", "internal/excerpt", "internal/flags", "internal/gen/coppice/v1", "internal/hook", "internal/mcp",
		"internal/model/fakellm", "internal/model/price", "internal/model/provider", "internal/outbound", "internal/policy", "internal/redact", "internal/sandbox", "internal/tool", "internal/transcript", "internal/tree", "internal/wire",
	},
	"internal/mcp/mcptest":         {},
	"internal/mcp/mcptest/greeter": {"internal/mcp/mcptest"},
	"internal/jaegertest":          {"internal/otlptest", "internal/proctest"},
	"internal/otlptest":            {},
	"internal/pgtest":              {"internal/proctest"},
	"internal/proctest":            {},
	"internal/redistest":           {"internal/proctest"},
	"internal/chaos": {
		"internal/gen/coppice/v1", "internal/model", "internal/policy", "internal/tool", "internal/tree", "internal/wire",
	},
	"internal/chaos/worker": {"internal/alive", "internal/assembly", "internal/chaos", "internal/flags", "internal/hook", "internal/model/scripted", "internal/sandbox"},
	"cmd/coppice":           {"internal/cli", "internal/sandbox"},
	"cmd/orchestrator":      {"internal/assembly", "internal/auth", "internal/callback", "internal/flags", "internal/redact", "internal/tree"},
	"cmd/worker":            {"internal/alive", "internal/assembly", "internal/auth", "internal/flags", "internal/hook", "internal/mcp", "internal/model/provider", "internal/redact", "internal/sandbox"},
}

// shunned are packages of others that a package has to do without.
var shunned = map[string]*regexp.Regexp{
	// It decides, and reaches for nothing outside.
	"internal/tree": regexp.MustCompile(`^(os|io|net|database|syscall|log|google\.golang\.org)(/|$)`),
	// What it records goes through an interface of its own: it knows neither the
	// store nor the stream to it.
	"internal/loop": regexp.MustCompile(`^(net|database|google\.golang\.org)(/|$)`),
}

func TestImportsPointDown(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, f := range sources(t) {
		pkg := f.pkg()
		edges, known := allowed[pkg]
		if !known && !seen[pkg] {
			t.Errorf("%s is not in the table of allowed imports: add a line for it", pkg)
		}
		seen[pkg] = true
		for _, spec := range f.syntax.Imports {
			path := importPath(t, spec)
			if ours, ok := strings.CutPrefix(path, module); ok && known && !slices.Contains(edges, ours) {
				t.Errorf("%s imports %s, which is not in the line of %s in the table of allowed imports", f.path, ours, pkg)
			}
			if no := shunned[pkg]; no != nil && no.MatchString(path) {
				t.Errorf("%s imports %s, which %s has to do without", f.path, path, pkg)
			}
		}
	}
	for pkg := range allowed {
		if !seen[pkg] {
			t.Errorf("%s has a line in the table of allowed imports, and no files: remove the line", pkg)
		}
	}
}

// TestStatusesAreMadeInOnePlace keeps gRPC's codes in the table of internal/wire.
func TestStatusesAreMadeInOnePlace(t *testing.T) {
	t.Parallel()
	makers := []string{"Error", "Errorf", "New", "Newf", "FromProto", "ErrorProto"}
	for _, f := range sources(t) {
		if pkg := f.pkg(); pkg == "internal/wire" || strings.HasPrefix(pkg, "internal/gen/") {
			continue
		}
		status := f.nameOf(t, "google.golang.org/grpc/status")
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			use, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if from, ok := use.X.(*ast.Ident); ok && from.Name == status && slices.Contains(makers, use.Sel.Name) {
				t.Errorf("%s makes a status with %s.%s; that is internal/wire's", f.path, status, use.Sel.Name)
			}
			return true
		})
	}
}

// TestTheAPIHasNoStore keeps the checks of tenants in internal/orchestrator. Its configuration has
// the store, whose methods read what any tenant has.
func TestTheAPIHasNoStore(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.pkg() != "internal/api" {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if use, ok := n.(*ast.SelectorExpr); ok && use.Sel.Name == "Store" {
				t.Errorf("%s uses the store: what it reads needs a method of orchestrator.Service that takes the tenant", f.path)
			}
			return true
		})
	}
}

type source struct {
	path   string // from the root of the module, with slashes
	syntax *ast.File
}

func (s source) pkg() string { return path.Dir(s.path) }

// nameOf gives the name under which the file imports a package; empty if it does not.
func (s source) nameOf(t *testing.T, imported string) string {
	t.Helper()
	for _, spec := range s.syntax.Imports {
		switch {
		case importPath(t, spec) != imported:
		case spec.Name != nil:
			return spec.Name.Name
		default:
			return path.Base(imported)
		}
	}
	return ""
}

func importPath(t *testing.T, spec *ast.ImportSpec) string {
	t.Helper()
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sources parses all Go files of the module but tests.
func sources(t *testing.T) []source {
	t.Helper()
	root := os.DirFS("..")
	var found []source
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || isModule(root, name)):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		found = append(found, source{name, syntax})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatal("found no Go files")
	}
	return found
}

// isModule reports whether a directory below the root is a module of its own.
func isModule(root fs.FS, dir string) bool {
	_, err := fs.Stat(root, path.Join(dir, "go.mod"))
	return err == nil
}

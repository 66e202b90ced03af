package agentdef

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/coppice-run/coppice/internal/policy"
)

// permissions reads the keys about permissions.
func (f *frontMatter) permissions() policy.Permissions {
	p := policy.Permissions{
		Background: f.list("background_tools", checkTool),
	}
	p.Approvals, _ = policy.ParseApprovals(f.text("approvals", checkApprovals)) // empty is none
	const key = "permissions"
	node := f.fields.Value(key)
	if node == nil {
		return p
	}
	fields, err := f.source.Fields(node, "mode", "allow", "ask", "deny")
	inner := &frontMatter{source: f.source, fields: fields, err: err}
	p.Mode, _ = policy.ParseMode(inner.text("mode", checkPermissionMode)) // empty is none
	p.Allow = inner.rules("allow")
	p.Ask = inner.rules("ask")
	p.Deny = inner.rules("deny")
	f.unfit = inner.unfit
	if f.err == nil {
		f.err = inner.err
	}
	if f.err == nil && p.Layer.Empty() {
		f.fail(key, "expected mode, allow, ask or deny")
	}
	return p
}

// rules reads a list of rules.
func (f *frontMatter) rules(key string) []policy.Rule {
	texts := f.list(key, checkRule)
	if f.err != nil {
		return nil
	}
	rules, err := policy.ParseRules(texts)
	if err != nil {
		f.fail(key, "%v", err)
	}
	items, _ := f.fields.Value(key).(*ast.SequenceNode)
	for i, r := range rules {
		if err := r.Check(); err != nil && f.unfit == "" {
			f.unfit = f.source.At(items.Values[i], "%s: %v", key, err).Error()
		}
	}
	return rules
}

func checkApprovals(s string) string {
	if _, err := policy.ParseApprovals(s); err != nil {
		return "expected deny or escalate"
	}
	return ""
}

func checkPermissionMode(s string) string {
	if _, err := policy.ParseMode(s); err != nil {
		return "expected default, accept_edits, plan or bypass"
	}
	return ""
}

func checkRule(s string) string {
	if _, err := policy.ParseRule(s); err != nil {
		return err.Error()
	}
	return ""
}

func putPermissions(b *strings.Builder, p policy.Permissions) {
	if !p.Layer.Empty() {
		b.WriteString("permissions:\n")
		putIndented(b, func(b *strings.Builder) {
			putText(b, "mode", p.Mode.String())
			putList(b, "allow", texts(p.Allow))
			putList(b, "ask", texts(p.Ask))
			putList(b, "deny", texts(p.Deny))
		})
	}
	putText(b, "approvals", p.Approvals.String())
	putList(b, "background_tools", p.Background)
}

func putIndented(b *strings.Builder, put func(*strings.Builder)) {
	var inner strings.Builder
	put(&inner)
	for line := range strings.Lines(inner.String()) {
		b.WriteString("  " + line)
	}
}

func texts(rules []policy.Rule) []string {
	var out []string
	for _, r := range rules {
		out = append(out, r.String())
	}
	return out
}

package agentdef

import (
	"reflect"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/policy"
)

func TestParsePermissions(t *testing.T) {
	t.Parallel()
	lines := []string{
		"tools: [read, bash, task]", "permissions:", "  mode: accept_edits", "  allow: ['bash(git *)']",
		"  ask:", "    - bash(git push*)", "  deny: [\"read(**/.env)\", mcp__s__*]", "approvals: escalate", "background_tools: [read]",
	}
	d, err := Parse("x", []byte(small(lines...)))
	if err != nil {
		t.Fatal(err)
	}
	p := d.Permissions
	if p.Mode != policy.ModeAcceptEdits || p.Layer.String() != "mode accept_edits, deny read(**/.env), deny mcp__s__*, ask bash(git push*), allow bash(git *)" ||
		p.Approvals != policy.ApprovalsEscalate || !reflect.DeepEqual(p.Background, []string{"read"}) {
		t.Errorf("got %+v", p)
	}
	again, err := Parse("x", d.Marshal())
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("%s\nreads as %+v, %v", d.Marshal(), again, err)
	}
	plain, err := Parse("x", []byte(small("tools: [read, bash, task]")))
	if err != nil || plain.Version == d.Version || plain.Permissions.Pin() != "" {
		t.Errorf("without: %+v, %v", plain, err)
	}
	denies, err := Parse("x", []byte(small("approvals: deny")))
	if err != nil || denies.Permissions.Pin().Open().Approvals != policy.ApprovalsDeny || denies.Version == plain.Version {
		t.Errorf("approvals: deny is %+v, %v", denies, err)
	}
	if again, err := Parse("x", denies.Marshal()); err != nil || !reflect.DeepEqual(again, denies) {
		t.Errorf("%s\nreads as %+v, %v", denies.Marshal(), again, err)
	}
}

// TestRulesThatMatchNothing are refused in new definitions. Definitions that were stored with one
// can be read.
func TestRulesThatMatchNothing(t *testing.T) {
	t.Parallel()
	d, err := Parse("x", []byte(small("permissions:", "  allow: [read]", "  deny:", "  - read", "  - find_tools(x)")))
	if err != nil {
		t.Fatal(err)
	}
	const want = `x:9: deny: the rule "find_tools(x)" matches nothing`
	if err := d.Fits(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestParseBadPermissions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		small("permissions: plan"):                             "x:5: expected a mapping with the keys mode, allow, ask, deny, got a string",
		small("permissions: {}"):                               "x:5: permissions: expected mode, allow, ask or deny",
		small("permissions:", "  modes: plan"):                 "x:6: unknown key modes, expected one of mode, allow, ask, deny",
		small("permissions:", "  mode: brave"):                 `x:6: mode: expected default, accept_edits, plan or bypass, got "brave"`,
		small("permissions:", "  allow: read"):                 "x:6: allow: expected a list of strings, got a string",
		small("permissions:", "  deny: []"):                    "x:6: deny: expected at least one",
		small("permissions:", "  deny:", "  - hammer(*)"):      `x:7: deny: the rule "hammer(*)" names no known tool: the tools are ls,`,
		small("permissions:", "  deny: ['read([a)']"):          `x:6: deny: the glob of the rule "read([a)": a [ has no ]`,
		small("permissions:", "  ask: ['bash(git push*']"):     `x:6: ask: "bash(git push*" is not a rule: expected a glob between the brackets, such as bash(git *)`,
		small("permissions:", "  ask: [read, read]"):           `x:6: ask: "read" is given twice`,
		small("approvals: always"):                             `x:5: approvals: expected deny or escalate, got "always"`,
		small("background_tools: []"):                          "x:5: background_tools: expected at least one",
		small("tools: [read]", "background_tools: [a]"):        `x:6: background_tools: "a" is not one of the tools of the agent`,
		small("tools: [read]", "permissions: &p {mode: plan}"): "x:6: expected a mapping with the keys mode, allow, ask, deny, got something else",
	} {
		if _, err := Parse("x", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "git push*") > 1 {
			t.Errorf("%q:\n got %v\nwant %s", text, err, want)
		}
	}
}

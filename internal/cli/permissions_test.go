package cli

import (
	"slices"
	"testing"
)

// TestRulesOfAVariable: blank lines between rules are no rules, and an empty value on the command
// line is a mistake, because a rule that denies may be missing.
func TestRulesOfAVariable(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{
		"bash(git *)\n\n  bash(make *)\n": {"bash(git *)", "bash(make *)"},
		"\n":                              nil,
		"read":                            {"read"},
	} {
		got, err := permissionFlags{PermissionMode: "plan", Deny: []string{value}}.permissions("")
		if err != nil || !slices.Equal(got.GetDeny(), want) {
			t.Errorf("%q has the rules %q, %v; want %q", value, got.GetDeny(), err, want)
		}
	}
	if _, err := (permissionFlags{Deny: []string{""}}).permissions(""); err == nil {
		t.Error("an empty rule is accepted")
	}
}

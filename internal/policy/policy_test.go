package policy

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func rules(t *testing.T, texts ...string) []Rule {
	t.Helper()
	parsed, err := ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[Mode][4]Decision{
		ModeDefault:     {Allow, Ask, Ask, Ask},
		ModeAcceptEdits: {Allow, Allow, Ask, Ask},
		ModePlan:        {Allow, Deny, Deny, Deny},
		ModeBypass:      {Allow, Allow, Allow, Allow},
	} {
		a := RootAuthority(Layer{Mode: mode}, Permissions{}, false)
		for i, access := range []Access{AccessRead, AccessEdit, AccessOther, AccessNetwork} {
			if got := a.Judge(Call{Tool: "edit", Access: access}); got.Decision != want[i] {
				t.Errorf("%s with access %d: %s, want %s", mode, access, got.Decision, want[i])
			}
		}
		if again, err := ParseMode(mode.String()); err != nil || again != mode {
			t.Errorf("%s reads as %v, %v", mode, again, err)
		}
	}
	if _, err := ParseMode(""); err == nil {
		t.Error("no mode is a mode")
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule           string
		call           Call
		wholly, partly bool
	}{
		{"read", Call{Tool: "read", Argument: "x"}, true, true},
		{"read", Call{Tool: "reader"}, false, false},
		{"task(explore)", Call{Tool: "task", Argument: "explore"}, true, true},
		{"task(explore)", Call{Tool: "task", Argument: "explorer"}, false, false},
		{"task(review-*)", Call{Tool: "task", Argument: "review-a/b"}, true, true},
		{"mcp__git__*", Call{Tool: "mcp__git__push", Argument: "any"}, true, true},
		{"mcp__git__*", Call{Tool: "mcp__github__push"}, false, false},
		{"mcp__git", Call{Tool: "mcp__git__push", Argument: "any"}, true, true},
		{"mcp__git", Call{Tool: "mcp__github__push"}, false, false},
		{`mcp__git(*"main"*)`, Call{Tool: "mcp__git__push", Argument: `{"branch":"main"}`}, true, true},
		{"*", Call{Tool: "anything"}, true, true},
		{"web_fetch(https://go.dev/*)", Call{Tool: "web_fetch", Argument: "https://go.dev/a/b"}, true, true},
		{"read(**/*.go)", reading("a.go"), true, true},
		{"read(**/*.go)", reading("x/y/a.go"), true, true},
		{"read(*.go)", reading("x/a.go"), false, false},
		{"read(x/**)", reading("x"), true, true},
		{"read(x/**)", reading("x/y/z"), true, true},
		{"read(x/**)", reading("xy"), false, false},
		{"read(**/secret/**)", reading("a/secret/b"), true, true},
		{"read(**/secret/**)", reading("secret"), true, true},
		{"read(**/secret/**)", reading("no-secret/b"), false, false},
		{"read(**/a.go)", reading("bara.go"), false, false},
		{"read(**/a.go)", reading("x/bara.go"), false, false},
		{"read(x/**/a.go)", reading("x/a.go"), true, true},
		{"read(x/**/a.go)", reading("x/y/z/a.go"), true, true},
		{"read(x/**/a.go)", reading("x/y/bara.go"), false, false},
		{"read(a?c)", reading("a/c"), false, false},
		{"read(a[!b-d]c)", reading("a/c"), false, false},
		{"read(a[!b-d]c)", reading("aec"), true, true},
		{"read(\\[id\\].ts)", reading("[id].ts"), true, true},
		{"bash(git *)", shell("git status"), true, true},
		{"bash(git *)", shell("  git log -1 --format='%h; %s' "), true, true},
		{"bash(git *)", shell(`git commit -m "a; b"`), true, true},
		{"bash(git *)", shell("git"), false, false},
		{"bash(git *)", shell("git log && rm -rf /"), false, true},
		{"bash(git *)", shell("git log; rm x"), false, true},
		{"bash(git *)", shell("git log | sh"), false, true},
		{"bash(git *)", shell("git log > x"), false, true},
		{"bash(git *)", shell("git log & rm x"), false, true},
		{"bash(git *)", shell("git log\nrm x"), false, true},
		{"bash(git *)", shell("git log\rrm x"), false, true},
		{"bash(git *)", shell("git $(rm x)"), false, true},
		{"bash(git *)", shell("git `rm x`"), false, true},
		{"bash(git *)", shell(`git "$(rm x)"`), false, true},
		{"bash(git *)", shell(`git "a`), false, true},
		{"bash(git *)", shell(`git a\`), false, true},
		{"bash(git *)", shell("git <(rm x)"), false, true},
		{"bash(*)", shell("a; b"), false, true},
		{"bash", shell("a; b"), true, true},
		{"bash(rm *)", shell("ls && rm x"), false, true},
		{"bash(rm *)", shell("ls;rm x"), false, true},
		{"bash(rm *)", shell("X=1 rm x"), false, true},
		{"bash(rm *)", shell("/bin/rm   x"), false, true},
		{"bash(rm *)", shell(`r"m" x`), false, true},
		{"bash(rm *)", shell("echo $(rm x)"), false, true},
		{"bash(rm *)", shell("(rm x)"), false, true},
		{"bash(rm *)", shell("lsrm x"), false, false},
		{"bash(rm *)", shell("rm${IFS}x"), false, true},
		{"bash(rm *)", shell("rm$IFS-rf$IFS/"), false, true},
		{"bash(rm *)", shell("{rm,-rf,/}"), false, true},
		{"bash(rm *)", shell("rm\tx"), false, true},
		{"bash(rm *)", shell(`\rm x`), false, true},
		{"bash(rm *)", shell("A=1 B= /usr/bin/rm x"), false, true},
		{"bash(rm *)", shell("sudo -u root rm x"), false, true},
		{"bash(rm *)", shell("env -i A=1 rm x"), false, true},
		{"bash(rm *)", shell("timeout -k 1 5 nice rm x"), false, true},
		{"bash(rm *)", shell("bash -c 'rm x'"), false, true},
		{"bash(rm *)", shell("/bin/sh -c \"rm x\""), false, true},
		{"bash(rm *)", shell("ls | xargs -0 rm -f"), false, true},
		{"bash(rm *)", shell("find . -name a -exec rm {} +"), false, true},
		{"bash(rm *)", shell("ls; rm $x"), false, true},
		{"bash(rm *)", shell("ls; rm `cat x`"), false, true},
		{"bash(rm *)", shell("if rm x; then y; fi"), false, true},
		{"bash(rm *)", shell("! rm x"), false, true},
		{"bash(rm *)", shell("eval rm x"), false, true},
		{"bash(rm *)", shell("x() { rm x; }; x"), false, true},
		{"bash(rm *)", shell("cat <<E\nrm x\nE"), false, true},
		{"bash(rm *)", shell("echo rm x"), false, false},
		{"bash(make deploy)", shell("make deploy 2>&1"), false, true},
		{"bash(make deploy)", shell("make deploy 2>/dev/null"), false, true},
		{"bash(make deploy)", shell("make deploy>x 2>&1"), false, true},
		{"bash(make deploy)", shell("make deploy\t12>x"), false, true},
		{"bash(make deploy)", shell("make deploy <x"), false, true},
		{"bash(make deploy)", shell("make deploy 0<x | tail"), false, true},
		{"bash(make deploy)", shell("make deploy <<E\ny\nE"), false, true},
		{"bash(make deploy)", shell("ls && sudo /bin/make deploy 2>x"), false, true},
		{"bash(make deploy)", shell("bash -c 'make deploy 2>x'"), false, true},
		{"bash(make deploy)", shell("make deploy 2 >x"), false, false},
		{"bash(make deploy)", shell("make deploy a2>x"), false, false},
		{"bash(make deploy)", shell(`make deploy "2">x`), false, false},
		{"bash(make deploy)", shell("make deploy 2; x"), false, false},
		{"bash(make deploy)", shell("make deploy <(x)"), false, false},
		{"bash(make deploy)", shell("make deploy $x"), false, false},
		{"bash(make deploy 2)", shell("make deploy 2>x"), false, true},
		{"bash(cat *)", shell("cat <x"), false, true},
	} {
		r := rules(t, c.rule)[0]
		if wholly, partly := r.matchesWhole(c.call), r.matchesPart(c.call); wholly != c.wholly || partly != c.partly {
			t.Errorf("%s on %+v: wholly %t, partly %t", c.rule, c.call, wholly, partly)
		}
	}
}

func reading(name string) Call {
	return Call{Tool: "read", Access: AccessRead, Kind: KindPath, Argument: name}
}

func shell(line string) Call { return Call{Tool: "bash", Kind: KindCommand, Argument: line} }

// TestCommandsAreJudgedOneByOne: a line is allowed if each command in it is, and only
// as far as what commands there are can be told for certain.
func TestCommandsAreJudgedOneByOne(t *testing.T) {
	t.Parallel()
	l := Layer{Mode: ModeDefault, Allow: rules(t, "bash(git status*)", "bash(git log*)", "bash(grep *)", "bash(wc)"), Deny: rules(t, "bash(git log --all*)")}
	for line, want := range map[string]Decision{
		"git status":                             Allow,
		"git status && git log":                  Allow,
		"git status; git log -1":                 Allow,
		"git log | grep x | wc":                  Allow,
		"git log || git status":                  Allow,
		"git log&&git status;wc":                 Allow,
		`git log --format="%h; %s" | grep 'a|b'`: Allow,
		`git log \; rm`:                          Allow, // to a shell that is one command
		"git log | grep 'it''s'":                 Allow,
		"git status\n":                           Allow,
		"\n git status | wc\n \t\n":              Allow,

		"git status && rm x":            Ask,
		"git status; rm x":              Ask,
		"git status | sh":               Ask,
		"git status |& grep x":          Ask,
		"git status & git log":          Ask,
		"git status &":                  Ask,
		"git status;":                   Ask,
		"; git status":                  Ask,
		"git status && && git log":      Ask,
		"git status ;; git log":         Ask,
		"git status > x":                Ask,
		"git status >> x":               Ask,
		"git status < x":                Ask,
		"git log <(rm x)":               Ask,
		"git log $(rm x)":               Ask,
		"git log `rm x`":                Ask,
		`git log "$(rm x)"`:             Ask,
		`git log "${x:=y}"`:             Ask,
		"git log $'a'":                  Ask,
		"(git log)":                     Ask,
		"{ git log; }":                  Ask,
		"git log {a,b}":                 Ask,
		"git status\ngit log":           Ask,
		"git status\\\nx":               Ask,
		"git status \\\n":               Ask,
		"git status\\ \n":               Ask,
		"git log 'a\n":                  Ask,
		"git status\r\n":                Ask,
		"git status\rrm x":              Ask,
		"git status\u0085rm x":          Ask,
		`git log 'a`:                    Ask,
		`git log "a`:                    Ask,
		`git log a\`:                    Ask,
		`git log 'a\' ; rm x '`:         Ask,
		`git log "a\"; rm x"`:           Allow,
		`git log "a\\"; rm x"`:          Ask,
		"X=1 git status":                Ask,
		"! git status":                  Ask,
		"sudo git status":               Ask,
		"git  status":                   Ask,
		">x git status":                 Ask,
		"ls | xargs git status":         Ask,
		"/usr/bin/git status":           Ask,
		"gitstatus":                     Ask,
		"":                              Ask,
		"git status && git log --all":   Deny,
		"git status && 'git' log --all": Deny,
	} {
		if got, by := l.decide(shell(line)); got != want {
			t.Errorf("%q: %s by %s, want %s", line, got, by, want)
		}
	}
}

func TestBadRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                             "is not a rule: expected TOOL or TOOL(GLOB)",
		"(x)":                          "is not a rule",
		"bash(rm *),bash(echo *)":      "looks like several rules",
		"bash(rm *), read(*.env)":      "looks like several rules",
		"read x":                       "is not a rule",
		"read(x":                       "expected a glob between the brackets",
		"read()":                       "expected a glob between the brackets",
		"hammer":                       "names no known tool: the tools are ls, glob,",
		"hammer*":                      "names no known tool",
		"Read":                         "names no known tool",
		"read([a)":                     "a [ has no ]",
		"read([])":                     "is empty, or a range in it is reversed",
		"read([b-a])":                  "is empty, or a range in it is reversed",
		`read(a\)`:                     `there is a \ at the end`,
		"read(***)":                    "more than two *",
		strings.Repeat("x", maxRule+1): "at most 500 bytes",
	} {
		if _, err := ParseRule(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// TestRulesThatMatchNothing: new rules for the argument of a tool that has none are refused. Stored
// ones are read, because a layer that cannot be read denies everything.
func TestRulesThatMatchNothing(t *testing.T) {
	t.Parallel()
	const without, noPath = "a call of find_tools has no argument", "the path of a call has no ./ at its beginning and no / at its end"
	for text, want := range map[string]string{
		"find_tools(x)": without, "find_*(?*)": without, "f*d_tools(git *)": without,
		"find_tools": "", "find_tools(*)": "", "*(x)": "", "*find_tools(x)": "", "*_tools(x)": "", "docs(x)": "",
		"mcp__find_tools(x)": "", "kill_task(x)": "",
		"read(./.env)": noPath, "edit(./src/**)": noPath, "write(src/)": noPath, "ls(**/)": noPath, "g*p(./x)": noPath,
		"read(.env)": "", "read(../**)": "", "read([.]/x)": "", "bash(./x)": "", "*(./x)": "", "web_fetch(https://*/)": "", "read(**)": "",
	} {
		_, err := NewRules([]string{"read", text})
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), "matches nothing: "+want) {
			t.Errorf("%s: %v", text, err)
		}
		stored := Permissions{Layer: Layer{Mode: ModePlan, Deny: rules(t, text)}}.Pin().Open()
		if stored.Mode != ModePlan || len(stored.Deny) != 1 {
			t.Errorf("%s is not read again: %s", text, stored)
		}
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	own := Permissions{Layer: Layer{
		Allow: rules(t, "bash(git *)", "edit"), Ask: rules(t, "bash(git push*)"), Deny: rules(t, "bash(git push --force*)"),
	}}
	root := RootAuthority(Layer{}, own, false)
	for line, want := range map[string]Verdict{
		"git log":          {},
		"git push":         {Decision: Ask, Rules: []string{"bash(git push*)"}},
		"git push --force": {Decision: Deny, Why: "the rule bash(git push --force*) denies it"},
		"make":             {Decision: Ask, Rules: []string{"bash=make"}},
	} {
		c := shell(line)
		if got := root.Judge(c); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", line, got, want)
		}
	}
	planned := RootAuthority(Layer{Mode: ModePlan}, own, false)
	if got := planned.Judge(shell("git log")); got.Decision != Deny {
		t.Errorf("a definition loosens its session: %+v", got)
	}
	if !planned.Open().Hides("edit", AccessEdit) || planned.Open().Hides("read", AccessRead) || root.Open().Hides("bash", AccessOther) {
		t.Error("what is hidden is not what is denied")
	}
	background := ChildAuthority(Permissions{Background: []string{"read", "mcp__git"}}.Pin(), true, root)
	if background.Judge(reading("x")).Decision != Allow || background.Judge(shell("git log")).Decision != Deny ||
		background.Open().Hides("mcp__git__push", AccessOther) || !background.Open().Hides("mcp__svn__push", AccessOther) || !background.Open().Hides("bash", AccessOther) {
		t.Errorf("in the background: %s", background)
	}
	for _, broken := range []Authority{"{", "[]", `[{"mode":"brave"}]`} {
		if broken.Judge(reading("x")).Decision != Deny {
			t.Errorf("%s allows something", broken)
		}
	}
	if d, _ := Pinned("{").Open().decide(reading("x")); d != Deny {
		t.Error("permissions that can't be read allow something")
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	v := Verdict{Decision: Ask, Rules: []string{"a", "b"}}
	if v.Granted([]string{"a"}) || !v.Granted([]string{"b", "a"}) || (Verdict{Decision: Deny}).Granted(nil) {
		t.Error("granted is not what all that asks has been granted")
	}
	long := strings.Repeat("x", 10_000)
	if a, b := callName(shell(long+"a")), callName(shell(long+"b")); a == b || len(a) > 400 {
		t.Errorf("two long commands are %q and %q", a, b)
	}
}

// TestACallWithoutAnArgumentIsNoRule: who allows it for the session has not allowed what a rule for
// all calls of the tool asks about.
func TestACallWithoutAnArgumentIsNoRule(t *testing.T) {
	t.Parallel()
	mode, rule := Layers{{Mode: ModeDefault}}, Layers{{Ask: rules(t, "bash")}}
	grants := mode.Judge(shell("")).Rules
	if !mode.Judge(shell("")).Granted(grants) {
		t.Errorf("%q does not allow the call again that it was given for", grants)
	}
	for name, v := range map[string]Verdict{
		"a rule asks about it": rule.Judge(shell("")), "a rule asks about another one": rule.Judge(shell("rm x")), "the mode asks about another one": mode.Judge(shell("rm x")),
	} {
		if v.Granted(grants) {
			t.Errorf("%s, and %q allows it", name, grants)
		}
	}
	if _, err := ParseRule(grants[0]); err == nil {
		t.Errorf("%q is a rule", grants[0])
	}
}

// drawLayer draws a layer over a few tools and arguments.
func drawLayer(t *rapid.T, name string) Layer {
	some := rapid.SliceOfN(rapid.SampledFrom([]string{
		"*", "read", "bash", "edit", "read(a*)", "read(**)", "bash(a *)", "bash(*)", "task(x)", "mcp__s__*", "edit(a/**)",
	}), 0, 3)
	draw := func(list string) []Rule {
		parsed, err := ParseRules(some.Draw(t, name+list))
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	l := Layer{Mode: rapid.SampledFrom([]Mode{0, 1, 2, 3, 4}).Draw(t, name), Allow: draw(" allow"), Ask: draw(" ask"), Deny: draw(" deny")}
	return l
}

func drawPermissions(t *rapid.T, name string) Permissions {
	p := Permissions{Layer: drawLayer(t, name)}
	if rapid.Bool().Draw(t, name+" narrows") {
		p.Background = []string{"read", "task"}
	}
	return p
}

// TestAChildIsNeverMoreThanItsParent draws a line of tasks with any permissions, and
// calls of them: the decision never gets weaker on the way down.
func TestAChildIsNeverMoreThanItsParent(t *testing.T) {
	t.Parallel()
	calls := []Call{
		{Tool: "read", Access: AccessRead, Kind: KindPath, Argument: "a/b"}, {Tool: "read", Access: AccessRead, Kind: KindPath, Argument: "x"},
		{Tool: "edit", Access: AccessEdit, Kind: KindPath, Argument: "a/b"}, {Tool: "bash", Kind: KindCommand, Argument: "a b"},
		{Tool: "bash", Kind: KindCommand, Argument: "a b; c"}, {Tool: "task", Access: AccessRead, Argument: "x"}, {Tool: "mcp__s__t"},
	}
	rapid.Check(t, func(t *rapid.T) {
		line := []Authority{RootAuthority(drawLayer(t, "session"), drawPermissions(t, "root"), false)}
		for range rapid.IntRange(1, 5).Draw(t, "depth") {
			var others []Authority
			if rapid.Bool().Draw(t, "resumed from above") {
				others = append(others, rapid.SampledFrom(line).Draw(t, "by"))
			}
			line = append(line, ChildAuthority(drawPermissions(t, "child").Pin(), rapid.Bool().Draw(t, "background"), line[len(line)-1], others...))
		}
		for i, child := range line[1:] {
			parent := line[i]
			if !child.Within(parent) {
				t.Fatalf("%s is not within %s", child, parent)
			}
			for _, c := range calls {
				weak, strong := child.Judge(c), parent.Judge(c)
				if weak.Decision < strong.Decision {
					t.Fatalf("%+v: the child %s decides %s, its parent %s %s", c, child, weak.Decision, parent, strong.Decision)
				}
				if weak.Decision == Ask && strong.Decision == Ask && slices.ContainsFunc(strong.Rules, func(r string) bool { return !slices.Contains(weak.Rules, r) }) {
					t.Fatalf("%+v: the child asks %v, its parent %v", c, weak.Rules, strong.Rules)
				}
				if child.Open().Hides(c.Tool, c.Access) && weak.Decision != Deny {
					t.Fatalf("%+v is hidden and not denied by %s", c, child)
				}
			}
		}
	})
}

// What is pinned reads as what it was.
func TestPinned(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPermissions(t, "p")
		p.Approvals = rapid.SampledFrom([]Approvals{ApprovalsUnspecified, ApprovalsDeny, ApprovalsEscalate}).Draw(t, "approvals")
		if again := p.Pin().Open(); again.Pin() != p.Pin() || again.Layer.String() != p.Layer.String() {
			t.Fatalf("%+v reads as %+v", p, again)
		}
	})
}

// TestApprovalsArePinned: what becomes of what a sub-agent asks is pinned as releases read it
// that knew of two words only.
func TestApprovalsArePinned(t *testing.T) {
	t.Parallel()
	for text, want := range map[Pinned]Approvals{
		"": ApprovalsUnspecified, `{"escalate":true}`: ApprovalsEscalate, `{"escalate":false}`: ApprovalsDeny,
	} {
		if got := (Permissions{Approvals: want}).Pin(); got != text {
			t.Errorf("%q is pinned as %s, want %s", want, got, text)
		}
		if got := text.Open(); got.Approvals != want {
			t.Errorf("%s is read as %q, want %q", text, got.Approvals, want)
		}
	}
}

// TestAskers: the mode is named once, also where a link gives a call two names.
func TestAskers(t *testing.T) {
	t.Parallel()
	long := Call{Tool: "bash", Argument: strings.Repeat("x", 300)}
	for name, c := range map[string]struct {
		call  Call
		rules []string
		want  string
	}{
		"a rule":                  {Call{Tool: "write", Argument: "f.md"}, []string{"write(*.md)"}, "write(*.md)"},
		"the mode":                {Call{Tool: "write", Argument: "f.md"}, []string{"write=f.md"}, "the mode"},
		"all calls of the tool":   {Call{Tool: "bash"}, []string{"bash"}, "bash"},
		"of no argument":          {Call{Tool: "bash"}, []string{callName(Call{Tool: "bash"})}, "the mode"},
		"where a link leads":      {Call{Tool: "write", Argument: "link/f.md"}, []string{"write(*.md)", "write=link/f.md", "write=real/f.md"}, "write(*.md), the mode (for real/f.md)"},
		"only where a link leads": {Call{Tool: "write", Argument: "link/f.md"}, []string{"write=real/f.md", "write=g", "write(x)"}, "the mode (for real/f.md, g), write(x)"},
		"a long one":              {long, []string{callName(long)}, "the mode"},
		"a long one that is cut":  {Call{Tool: "bash", Argument: long.Argument[:250] + "..."}, []string{callName(long)}, "the mode"},
		"what looks like that":    {Call{Tool: "bash", Argument: "ls"}, []string{"bash=l… sha256:" + strings.Repeat("0", 64)}, "the mode (for l… sha256:" + strings.Repeat("0", 64) + ")"},
	} {
		var got []string
		for _, asker := range Askers(c.call.Tool, c.call.Argument, c.rules) {
			got = append(got, asker.Text(func(s string) string { return s }))
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %q asks, want %q", name, got, c.want)
		}
	}
}

// TestAGlobOfCallsIsOneRule: brackets and commas in a glob make several rules only if a tool is named
// between them.
func TestAGlobOfCallsIsOneRule(t *testing.T) {
	t.Parallel()
	for text, one := range map[string]bool{
		"bash(python -c 'f(1),g(2)')":  true,
		"bash(f(x); reader(y))":        true,
		"bash(f(x),bash(y))":           false,
		"bash(f(x) ;mcp__git__push(*)": false,
	} {
		if _, err := ParseRule(text); (err == nil) != one {
			t.Errorf("%s: %v", text, err)
		}
	}
}

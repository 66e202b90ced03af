package policy

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// writtenOut gives all texts that a rule is held against, each as a string of its own.
func writtenOut(line string) []string {
	var all []string
	for s := range candidates(line) {
		all = append(all, s.text)
		words := strings.Split(s.text, " ")
		for i := range s.heads {
			name := path.Base(words[i])
			all = append(all, strings.Join(words[i:], " "), strings.Join(append([]string{name}, words[i+1:]...), " "))
		}
	}
	return all
}

// TestBeginningsOfACommand: a command may begin after what carries it, with a directory or
// without, and nowhere else.
func TestBeginningsOfACommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                   {""},
		"rm x":               {"rm x"},
		"/bin/rm  x y":       {"/bin/rm  x y", "/bin/rm x y", "rm x y"},
		"A=1 'B=2' rm rm":    {"A=1 'B=2' rm rm", "A=1 B=2 rm rm", "B=2 rm rm", "rm rm"},
		"sudo /a/b/ c":       {"sudo /a/b/ c", "/a/b/ c", "b c", "c"},
		"/usr/bin/env // rm": {"/usr/bin/env // rm", "env // rm", "// rm", "/ rm", "rm"},
		"a;nice b":           {"a;nice b", "a", "nice b", "b"},
		"{a,b}":              {"{a,b}", "…", "a,b", "a b"},
		"a b 2>x":            {"a b 2>x", "a b 2", "a b", "x"},
		"2<x":                {"2<x", "2 …", "x"},
	} {
		got := writtenOut(line)
		slices.Sort(got)
		slices.Sort(want)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestCommandsWithoutTheirSurroundings: redirections are no part of a command, and xargs and
// parallel give it an argument, for rules that ask or deny.
func TestCommandsWithoutTheirSurroundings(t *testing.T) {
	t.Parallel()
	checkPieces(t, []pieceCase{
		{"bash(rm *)", ">/dev/null rm x", true},
		{"bash(rm *)", "2>/dev/null rm x", true},
		{"bash(rm *)", "</dev/null rm x", true},
		{"bash(rm *)", "ls; 2>&1 >> a &>b /bin/rm x", true},
		{"bash(rm *)", "A=1 > a rm x", true},
		{"bash(rm *)", "sudo 2>a rm x", true},
		{"bash(rm *)", `>"$LOG of x" rm x`, true},
		{"bash(rm *)", `>$LOG rm x`, true},
		{"bash(rm *)", "<<<a rm x", true},
		{"bash(rm *)", "bash -c '>a rm x'", true},
		{"bash(rm *)", "rm 2>/dev/null x", true},
		{"bash(rm *)", "ls >a rm x", false},
		{"bash(rm *)", "ls <a>b rm x", false},
		{"bash(ls 2 x)", "ls 2>a x", false},
		{"bash(ls x)", "ls 2>a x", true},
		{"bash(ls 2 x)", "ls 2 >a x", true},
		{"bash(make deploy)", `echo "<a>" && make deploy 2>&1 | grep "x"`, true},
		{"bash(rm *)", "echo q | xargs rm", true},
		{"bash(rm *)", "xargs -n1 rm", true},
		{"bash(rm -rf *)", "find . | sudo /usr/bin/xargs -0 rm -rf", true},
		{"bash(rm *)", "ls | parallel rm", true},
		{"bash(rm)", "xargs rm", true},
		{"bash(xargs *)", "ls | xargs", false},
		{"bash(rm *)", "ls xargs rm", false},
		{"bash(rm *)", "sudo rm", false},
		{"bash(xargs rm *)", "xargs rm", true},
	})
}

// TestCommandsAfterAssignments: what a variable gets is no part of the command, whatever it contains,
// for rules that ask or deny. Rules that allow see the line as it is.
func TestCommandsAfterAssignments(t *testing.T) {
	t.Parallel()
	checkPieces(t, []pieceCase{
		{"bash(git push*)", `GIT_SSH_COMMAND="ssh -i key" git push`, true},
		{"bash(git push*)", `cd x && GIT_COMMITTER_NAME="A B" git push`, true},
		{"bash(git push*)", `MESSAGE="a; b" git push -f; ls`, true},
		{"bash(git push*)", `env MESSAGE="a; b" git push`, true},
		{"bash(git push*)", `if A="$HOME/x y" B='c|d' /bin/git push; then ls; fi`, true},
		{"bash(git push*)", `ls "x&A=" && B="y z" git push`, true},
		{"bash(git push*)", `bash -c "cd x; A='y z' git push"`, true},
		{"bash(git push)", `A="x > y" 2>log git push`, true},
		{"bash(git push)", `2>log A="x > y" git push 2>&1`, true},
		{"bash(git push *)", `A="x y" git push $B`, true},
		{"bash(rm *)", `A='x y' rm x`, true},
		{"bash(rm *)", `A=x\ y rm x`, true},
		{"bash(rm *)", `A="\" y" rm x`, true},
		{"bash(rm *)", `A="$(date) y" rm x`, true},
		{"bash(rm *)", `A=$B:/c rm x`, true},
		{"bash(rm *)", "A+=1 rm x", true},
		{"bash(rm *)", "A[0]=1 rm x", true},
		{"bash(rm *)", `A[0]+="x y" rm x`, true},
		{"bash(rm *)", `A="x y"`, false},
		{"bash(rm *)", `A="x y" echo rm x`, false},
		{"bash(rm *)", `make A="x y" rm x`, false},
		{"bash(rm *)", `[0]=1 rm x`, false},
	})
}

// TestAssignmentsAreSoughtInBoundedTime: quotes that make a word of all the rest, wherever it
// begins, do not have the rest read again for each beginning.
func TestAssignmentsAreSoughtInBoundedTime(t *testing.T) {
	t.Parallel()
	const beginnings = 1000
	line := strings.Repeat(`;B='"'\'"`, beginnings) + `" rm x`
	found := 0
	for range assignedCommands(line) {
		found++
	}
	if found < 1 || found > 2*maxRescans {
		t.Errorf("%d commands in %d beginnings", found, beginnings)
	}
}

// TestMatchesWhatIsWrittenOut: going through a line once finds what it would to hold a rule
// against each command that may begin in it.
func TestMatchesWhatIsWrittenOut(t *testing.T) {
	t.Parallel()
	some := func(texts ...string) *rapid.Generator[string] {
		return rapid.Map(rapid.SliceOfN(rapid.SampledFrom(texts), 1, 12), func(some []string) string { return strings.Join(some, "") })
	}
	lines := some("a", "b", "/", "/", " ", " ", "\t", "sudo ", " find ", "x=", "x+=", ";", " 2>", "<", "'", `\`, "{", ",", "$", "é", "\xc3", "\"\xa9", "\u00a0")
	globs := some("a", "b", "/", " ", "*", "?", "[!a]", "[a-b]", "sudo", "x=", "é", "\uFFFD", "**").
		Filter(func(text string) bool {
			_, err := parseGlob(text)
			return err == nil
		})
	rapid.Check(t, func(t *rapid.T) {
		line, text := lines.Draw(t, "line"), globs.Draw(t, "glob")
		g, err := parseGlob(text)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.ContainsFunc(writtenOut(line), func(text string) bool { return g.match(text, false) })
		r := Rule{tool: glob{{kind: doubleStar}}, argument: g, hasArgument: true}
		if got := r.matchesPart(shell(line)); got != want {
			t.Fatalf("%q on %q: %t, want %t", text, line, got, want)
		}
	})
}

// TestALongLineIsNotCopied: however many words come after one that runs another program, a
// rule is held against all of them with as little as against one.
func TestALongLineIsNotCopied(t *testing.T) {
	r := rules(t, "bash(git push*)")[0]
	for _, line := range []string{"timeout 600 pytest", "xargs rm", "find . -name"} {
		count := func(words int) float64 {
			c := shell(line + strings.Repeat(" /a/b", words))
			return testing.AllocsPerRun(1, func() {
				if r.matchesPart(c) {
					t.Errorf("%s on %s", r, line)
				}
			})
		}
		if short, long := count(10), count(2000); long > short+10 {
			t.Errorf("%s: a long line takes %g allocations, a short one %g", line, long, short)
		}
	}
}

// pieceCase is a rule, and whether it asks or denies because of a piece of a line.
type pieceCase struct {
	rule, line string
	matches    bool
}

// checkPieces checks the cases. None of the rules allows its line.
func checkPieces(t *testing.T, cases []pieceCase) {
	t.Helper()
	for _, c := range cases {
		r := rules(t, c.rule)[0]
		if got := r.matchesPart(shell(c.line)); got != c.matches {
			t.Errorf("%s on %s: %t", c.rule, c.line, got)
		}
		if r.matchesWhole(shell(c.line)) {
			t.Errorf("%s allows %s", c.rule, c.line)
		}
	}
}

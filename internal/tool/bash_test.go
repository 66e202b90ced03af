package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tree"
)

// aBash gives the tool over a sandbox that passes PATH on, and is off otherwise: the
// processes of commands can be seen.
func aBash(t testing.TB) Tool {
	t.Helper()
	confined, err := sandbox.New(sandbox.Config{Mode: sandbox.Off, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	must(t, err)
	return NewBash(confined, false, nil)
}

// line is the input of a call with this command line and further fields.
func line(t testing.TB, command string, more ...any) json.RawMessage {
	t.Helper()
	input := map[string]any{"command": command}
	for i := 0; i < len(more); i += 2 {
		input[more[i].(string)] = more[i+1]
	}
	raw, err := json.Marshal(input)
	must(t, err)
	return raw
}

// bash runs a command line in the foreground.
func bash(t testing.TB, w *Workspace, command string, more ...any) Done {
	t.Helper()
	outcome := aBash(t).Call(t.Context(), Call{Input: line(t, command, more...), Workspace: w, Label: "call"})
	done, ok := outcome.(Done)
	if !ok {
		t.Fatalf("%s: %+v", command, outcome)
	}
	if len(done.Text) > maxOutput {
		t.Errorf("%s: %d bytes", command, len(done.Text))
	}
	return done
}

func TestBash(t *testing.T) {
	t.Parallel()
	w := setup(t, "a.txt", "content\n")
	for _, tt := range []struct {
		name, command, want string
		isError             bool
	}{
		{"output", "cat a.txt", "content", false},
		{"nothing", "true", "[no output]", false},
		{"both streams in order", "echo 1; echo 2 >&2; echo 3", "1\n2\n3", false},
		{"exit code", "echo no; exit 3", "no\n[exit code 3]", true},
		{"signal", "kill -SEGV $$", "[no output]\n[exit code 139, as after SIGSEGV]", true},
		{"it is bash", "[[ a == a ]] && echo ${BASH_VERSION:+yes}", "yes", false},
		{"no input", "cat; echo end", "end", false},
		{"not text", `printf 'a\xff\x00b'`, "a��b", false},
		{"no state", "cd /; x=1", "[no output]", false},
		{"syntax", "if", "bash: -c: line", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := bash(t, w, tt.command)
			if !strings.HasPrefix(got.Text, tt.want) || got.IsError != tt.isError {
				t.Errorf("%s: %+v, want %q", tt.command, got, tt.want)
			}
		})
	}
	if got := bash(t, w, "pwd; echo ${x-unset}"); got.Text != w.Dir()+"\nunset" {
		t.Errorf("a fresh shell in the workspace said %q", got.Text)
	}
}

// A command line of as many characters as a call may have runs, though the kernel takes no argument of
// that many bytes.
func TestBashTakesLongLines(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, letter := range []string{"x", "é", "語", "😀"} {
		start, end := "cat > f << 'END'\n$1 \"\n", "\nEND\necho $# ${x-unset} \"$0\"; false"
		text := strings.Repeat(letter, maxCommand-len(start)-len(end))
		got := bash(t, w, start+text+end)
		if got.Text != "0 unset bash\n[exit code 1]" || !got.IsError {
			t.Errorf("%s: %.200q", letter, got.Text)
		}
		if kept, err := os.ReadFile(filepath.Join(w.Dir(), "f")); err == nil && string(kept) != "$1 \"\n"+text+"\n" {
			t.Errorf("%s: the file has %d bytes", letter, len(kept))
		}
	}
}

// TestBashWithGit: git takes repositories of the workspace, whoever they belong to, and others
// only if they belong to who runs it.
func TestBashWithGit(t *testing.T) {
	t.Parallel()
	w, elsewhere := setup(t), t.TempDir()
	bash(t, w, "git init -q . && git init -q "+elsewhere)
	bash(t, w, "mkdir below")
	const ofOthers = "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1; "
	for command, refused := range map[string]bool{
		"git status --short":              false,
		"cd below && git status --short":  false,
		"git -C " + elsewhere + " status": true,
	} {
		got := bash(t, w, ofOthers+command)
		if got.IsError != refused || refused != strings.Contains(got.Text, "dubious ownership") {
			t.Errorf("%s: %+v", command, got)
		}
	}
}

func TestBashInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for input, want := range map[string]string{
		`{}`:                               "command: missing",
		`{"command":"  "}`:                 "command: expected a string that is not blank",
		`{"command":"a","timeout":600001}`: "timeout: at most 600000 milliseconds",
		`{"command":"a","timeout":0}`:      "timeout: expected a whole number from 1",
		`{"command":"a","cwd":"/"}`:        `unknown field "cwd"`,
		`{"command":"a\u0000b"}`:           "without NUL",
		`{"command":"a","timeout":86400001,"run_in_background":true}`: "timeout: at most 86400000 milliseconds",
	} {
		done, _ := aBash(t).Call(t.Context(), Call{Input: []byte(input), Workspace: w}).(Done)
		if !done.IsError || !strings.Contains(done.Text, want) {
			t.Errorf("%s: %+v, want %q", input, done, want)
		}
	}
	if done, _ := aBash(t).Call(t.Context(), Call{Input: line(t, "true")}).(Done); !done.IsError || done.Text != errNoWorkspace.Error() {
		t.Errorf("without a workspace: %+v", done)
	}
}

// TestBashIsKilled: what a command has started does not outlive it.
func TestBashIsKilled(t *testing.T) {
	t.Parallel()
	w := setup(t)
	got := bash(t, w, "sleep 1000 & echo $! > child; echo begun; sleep 1000", "timeout", 300)
	if want := "begun\n[timeout: killed after 300ms, with all that it had started]"; !got.IsError || got.Text != want {
		t.Errorf("%+v, want %q", got, want)
	}
	isGone(t, w, "child")
	if got := bash(t, w, "sleep 1000 & echo $! > left; echo done"); got.IsError || got.Text != "done" {
		t.Errorf("%+v", got)
	}
	isGone(t, w, "left")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan Outcome)
	go func() {
		ended <- aBash(t).Call(ctx, Call{Input: line(t, "sleep 1000 & echo $! > lost; wait"), Workspace: w})
	}()
	await(t, func() bool { return pidIn(w, "lost") > 0 })
	cancel()
	<-ended
	isGone(t, w, "lost")
}

// TestBashBoundsItsOutput: the beginning and the end are shown, and all of it is in
// the file that is named.
func TestBashBoundsItsOutput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	got := bash(t, w, "seq 1 20000; exit 1")
	head, tail, cut := strings.Cut(got.Text, "[cut: ")
	if !cut || !strings.HasPrefix(head, "1\n2\n") || !strings.HasSuffix(tail, "20000\n[exit code 1]") ||
		!strings.Contains(tail, "the whole is in .coppice/output/call.txt]") {
		t.Errorf("%.300s … %s", got.Text, tail[:100])
	}
	whole, err := os.ReadFile(filepath.Join(w.Dir(), ".coppice/output/call.txt"))
	must(t, err)
	if want := strings.Count(string(whole), "\n"); want != 20000 || !strings.HasSuffix(string(whole), "\n20000\n") {
		t.Errorf("the file has %d lines", want)
	}
	ignored, err := os.ReadFile(filepath.Join(w.Dir(), ".coppice/output/.gitignore"))
	if err != nil || string(ignored) != "*\n" {
		t.Errorf(".gitignore: %q, %v", ignored, err)
	}
}

// TestBashKeepsOutputInTheWorkspace: a command that has replaced the directory of
// outputs by a way out has nothing written there.
func TestBashKeepsOutputInTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, trap := range map[string]string{
		"directory": "mkdir -p .coppice && ln -s ../../away .coppice/output",
		"file":      "mkdir -p .coppice/output && ln -s ../../../secret .coppice/output/call.txt",
		"pipe":      "mkdir -p .coppice/output && mkfifo .coppice/output/call.txt",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			got := bash(t, w, trap+"; seq 1 20000")
			if !strings.Contains(got.Text, "[cut: ") || strings.Contains(got.Text, "the whole is") != (name != "directory") {
				t.Errorf("%s", got.Text[len(got.Text)-200:])
			}
			for _, file := range []string{"../secret", "../away/secret"} {
				if content, err := os.ReadFile(filepath.Join(w.Dir(), file)); err != nil || string(content) != secret {
					t.Errorf("%s: %q, %v", file, content, err)
				}
			}
			if _, err := os.Stat(filepath.Join(w.Dir(), "../away/call.txt")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something was written outside: %v", err)
			}
		})
	}
}

// TestBashInTheBackground: the call gives the command away, and it ends as it would.
// What names with NUL bytes between them would make a binary file of is text, too.
func TestBashKeepsOutputThatCanBeRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	got := bash(t, w, `for i in {1..9999}; do printf 'file %d\n\0' $i; done`)
	name := outputFile("call")
	if got.IsError || !strings.HasPrefix(got.Text, "file 1\n\ufffdfile 2\n") || !strings.Contains(got.Text, "the whole is in "+name) {
		t.Fatalf("%.300q", got.Text)
	}
	check(t, w, "grep", []toolCase{{fmt.Sprintf(`{"pattern":"file 500$","path":%q,"output_mode":"content"}`, name), name + ":500:\ufffdfile 500"}})
	if read := call(t, w, "read", fmt.Sprintf(`{"path":%q,"offset":9999}`, name)); !strings.HasPrefix(read.Text, "  9999\t\ufffdfile 9999\n 10000\t\ufffd") {
		t.Errorf("%+v", read)
	}
}

func TestBashInTheBackground(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command, output string
		reason          tree.Reason
		detail          string
		timeout         int
	}{
		{"echo out", "out\n", tree.ReasonUnspecified, "", 1000_000},
		{"echo out; exit 4", "out\n", tree.ReasonToolError, "exit code 4", 1000_000},
		{"echo out; sleep 1000", "out\n", tree.ReasonTimeout, "killed after 300ms", 300},
	} {
		w := setup(t)
		spawn, ok := aBash(t).Call(t.Context(), Call{
			Input:     line(t, tt.command, "run_in_background", true, "description", "d", "timeout", tt.timeout),
			Workspace: w, Label: "x-1-0",
		}).(Spawn)
		if !ok || !spawn.Background || spawn.Description != "d" || spawn.Command.Line != tt.command || spawn.Command.ByUser {
			t.Fatalf("%s: %+v", tt.command, spawn)
		}
		spawn.Command.Take()
		got := spawn.Command.Run(t.Context(), func(string) {})
		if want := (CommandEnd{Output: tt.output, Reason: tt.reason, Detail: tt.detail}); got != want {
			t.Errorf("%s: %+v, want %+v", tt.command, got, want)
		}
		kept, err := os.ReadFile(filepath.Join(w.Dir(), spawn.Command.Output))
		if err != nil || string(kept) != tt.output {
			t.Errorf("%s: %s has %q, %v", tt.command, spawn.Command.Output, kept, err)
		}
	}
}

// TestBashGoesToTheBackground: a command under way is given away without being begun
// again, tells what it prints, and ends with whoever carries it.
func TestBashGoesToTheBackground(t *testing.T) {
	t.Parallel()
	w := setup(t)
	move, ended := make(chan struct{}), make(chan Outcome)
	callEnds, endCall := context.WithCancel(t.Context())
	go func() {
		ended <- aBash(t).Call(callEnds, Call{
			Input:     line(t, "echo $$ > shell; echo begun; while [ ! -e go ]; do sleep 0.01; done; echo went on; sleep 1000"),
			Workspace: w, Label: "x", Background: move,
		})
	}()
	await(t, func() bool { return pidIn(w, "shell") > 0 })
	close(move)
	spawn := (<-ended).(Spawn)
	endCall()
	spawn.Command.Take()
	if !spawn.Command.ByUser || !spawn.Background {
		t.Errorf("%+v", spawn)
	}
	carrying, stop := context.WithCancel(t.Context())
	told, end := make(chan string, 100), make(chan CommandEnd)
	go func() { end <- spawn.Command.Run(carrying, func(output string) { told <- output }) }()
	if got := <-told; got != "begun\n" {
		t.Errorf("it told %q", got)
	}
	write(t, filepath.Join(w.Dir(), "go"), "")
	if got := <-told; got != "begun\nwent on\n" {
		t.Errorf("it told %q", got)
	}
	stop()
	if got := <-end; got.Reason != tree.ReasonInterrupted || got.Output != "begun\nwent on\n" {
		t.Errorf("it ended as %+v", got)
	}
	isGone(t, w, "shell")
}

func TestBashIsDropped(t *testing.T) {
	t.Parallel()
	w := setup(t)
	move := make(chan struct{})
	close(move)
	spawn := aBash(t).Call(t.Context(), Call{
		Input: line(t, "echo $$ > shell; sleep 1000"), Workspace: w, Background: move,
	}).(Spawn)
	await(t, func() bool { return pidIn(w, "shell") > 0 })
	spawn.Command.Drop()
	isGone(t, w, "shell")
}

func TestBashGuard(t *testing.T) {
	t.Parallel()
	g := GuardOf(aBash(t))
	got := g.policyCalls(BashTool, Call{Input: line(t, "git log && rm -rf .")})
	want := policy.Call{Tool: "bash", Access: policy.AccessOther, Kind: policy.KindCommand, Argument: "git log && rm -rf ."}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// pidIn reads a process id that a command has written; 0 if there is none yet.
func pidIn(w *Workspace, file string) int {
	text, _ := os.ReadFile(filepath.Join(w.Dir(), file)) // there may be none yet
	pid, err := strconv.Atoi(strings.TrimSuffix(string(text), "\n"))
	if err != nil || !strings.HasSuffix(string(text), "\n") {
		return 0
	}
	return pid
}

// isGone checks that a process has ended.
func isGone(t testing.TB, w *Workspace, file string) {
	t.Helper()
	pid := pidIn(w, file)
	if pid == 0 {
		t.Fatalf("%s: no process id", file)
	}
	await(t, func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || strings.Contains(string(state), ") Z ")
	})
}

// await waits for a condition.
func await(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited a minute in vain")
		}
	}
}

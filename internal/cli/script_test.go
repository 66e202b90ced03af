package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/coppice-run/coppice/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"coppice": func() {
		ctx, stop := cli.Signals()
		os.Exit(cli.Main(ctx, cli.Process{
			Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Interrupt: stop,
		}))
	}})
}

// TestScript plays what a person types. Besides the usual commands there are:
//
//	exits CODE coppice ARG…
//		runs a command that has to end with this exit code
//	until REGEXP coppice ARG…
//		runs a command again until its output matches
//	keep NAME REGEXP
//		sets a variable to what the group matches in the last output
//	serve [ARG…]
//		starts coppice dev on a free port, and has the commands after it use it
//	interrupt CODE TEXT coppice ARG…
//		runs a command, interrupts it once its output contains TEXT, and checks
//		its exit code
func TestScript(t *testing.T) {
	t.Parallel()
	// A signal that is caught is not ignored by what is started, however the test was.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	testscript.Run(t, scripts("testdata/script"))
}

// scripts are those of a directory, with the commands for them.
func scripts(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LC_ALL", "C.UTF-8")
			e.Setenv("XDG_STATE_HOME", e.WorkDir+"/state")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "until": until, "keep": keep, "serve": serve, "interrupt": interrupt,
		},
	}
}

// command prepares a command in the environment of a script.
func command(ts *testscript.TestScript, name string, args ...string) *exec.Cmd {
	path := ""
	for _, dir := range strings.Split(ts.Getenv("PATH"), string(os.PathListSeparator)) {
		if _, err := os.Stat(dir + "/" + name); err == nil {
			path = dir + "/" + name
			break
		}
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs(".")
	for _, key := range []string{"PATH", "HOME", "TMPDIR", "LC_ALL", "XDG_STATE_HOME", "COPPICE_ORCHESTRATOR", "TERM", "NO_COLOR"} { //nolint:misspell // as it is called
		cmd.Env = append(cmd.Env, key+"="+ts.Getenv(key))
	}
	if approvals := ts.Getenv("COPPICE_APPROVALS"); approvals != "" {
		cmd.Env = append(cmd.Env, "COPPICE_APPROVALS="+approvals)
	}
	return cmd
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	checkCode(ts, args[0], err)
}

func checkCode(ts *testscript.TestScript, want string, err error) {
	code := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("the command did not run: %v", err)
	}
	if strconv.Itoa(code) != want {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

// Patience with a command whose output does not match yet, and how long it is left alone
// between two looks.
const (
	untilAtMost = time.Minute
	untilAgain  = 50 * time.Millisecond
)

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND ARG...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for giveUp := time.Now().Add(untilAtMost); ; time.Sleep(untilAgain) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		switch {
		case pattern.MatchString(ts.ReadFile("stdout")):
			return
		case time.Now().After(giveUp):
			ts.Fatalf("the output has not come to match %s", args[0])
		}
	}
}

func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: keep NAME REGEXP")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	found := pattern.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("the output does not match %s with one group", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func serve(ts *testscript.TestScript, _ bool, args []string) {
	cmd := command(ts, "coppice", append([]string{"dev", "--json", "--listen", "127.0.0.1:0"}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		err := errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait())
		if err != nil {
			ts.Logf("coppice dev: %v\n%s", err, &log)
		}
		ts.Check(err)
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		ts.Fatalf("coppice dev said nothing: %v", err)
	}
	var ready struct{ Listen string }
	ts.Check(json.Unmarshal(line, &ready))
	ts.Setenv("COPPICE_ORCHESTRATOR", ready.Listen)
}

func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: interrupt CODE TEXT COMMAND ARG...")
	}
	cmd := command(ts, args[2], args[3:]...)
	cmd.Stderr = ts.Stderr()
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewScanner(out)
	found := false
	for !found && lines.Scan() {
		found = strings.Contains(lines.Text(), args[1])
	}
	if found {
		ts.Check(cmd.Process.Signal(os.Interrupt))
		_, err = io.Copy(ts.Stdout(), out)
		ts.Check(err)
	}
	err = cmd.Wait()
	if !found {
		ts.Fatalf("the output never contained %q: %v", args[1], err)
	}
	checkCode(ts, args[0], err)
}

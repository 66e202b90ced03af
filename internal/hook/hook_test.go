package hook_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/tree"
)

var subject = hook.Subject{Session: "s", Task: "t", Parent: "p", Run: 2, Agent: "explore", Prompt: "look"}

func bound(t *testing.T, dir string, specs ...hook.Spec) *hook.RunHooks {
	t.Helper()
	h := hook.New(hook.Config{Specs: specs, Environ: []string{
		"PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=secret", "LC_ALL=C", "HOME=/",
	}})
	t.Cleanup(h.Close)
	where := subject
	where.Dir = dir
	return h.For(where, nil)
}

func sh(event tree.HookEvent, script string) hook.Spec {
	return hook.Spec{Name: "h", Event: event, Command: []string{"sh", "-c", script}}
}

// TestOutcomes runs well-behaved hooks on both events.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec    hook.Spec
		outcome tree.HookOutcome
		output  string
		code    int
	}{
		"start gives context":  {sh(tree.SubagentStart, "echo ' be brief '; echo no >&2"), tree.HookPassed, "be brief", 0},
		"start says nothing":   {sh(tree.SubagentStart, "true"), tree.HookPassed, "", 0},
		"start can't block":    {sh(tree.SubagentStart, "echo no >&2; exit 2"), tree.HookFailed, "", 2},
		"stop passes":          {sh(tree.SubagentStop, "echo fine"), tree.HookPassed, "", 0},
		"stop blocks":          {sh(tree.SubagentStop, "echo fine; echo 'not yet' >&2; exit 2"), tree.HookBlocked, "not yet", 2},
		"stop blocks silently": {sh(tree.SubagentStop, "exit 2"), tree.HookBlocked, "It gave no reason.", 2},
		"stop fails":           {sh(tree.SubagentStop, "echo broken >&2; exit 3"), tree.HookFailed, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := ask(t.Context(), bound(t, t.TempDir(), c.spec), c.spec.Event)
			if len(ran) != 1 || ran[0].Outcome != c.outcome || ran[0].Output != c.output || ran[0].ExitCode != c.code {
				t.Errorf("got %+v", ran)
			}
		})
	}
}

// TestMessagesOfFailures: a hook that says nothing has no colon at the end of its message.
func TestMessagesOfFailures(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, r.URL.Query().Get("body"))
	}))
	t.Cleanup(server.Close)
	for want, spec := range map[string]hook.Spec{
		"exit status 3":                     sh(tree.SubagentStop, "echo >&2; exit 3"),
		"exit status 3: broken":             sh(tree.SubagentStop, "echo broken >&2; exit 3"),
		"signal: terminated":                sh(tree.SubagentStart, "kill $$"),
		"HTTP 500 Internal Server Error":    {Name: "h", Event: tree.SubagentStop, URL: server.URL},
		"HTTP 500 Internal Server Error: x": {Name: "h", Event: tree.SubagentStart, URL: server.URL + "?body=x"},
	} {
		if ran := ask(t.Context(), bound(t, t.TempDir(), spec), spec.Event)[0]; ran.Outcome != tree.HookFailed || ran.Message != want {
			t.Errorf("%s: %q, want %q", ran.Outcome, ran.Message, want)
		}
	}
}

func ask(ctx context.Context, b *hook.RunHooks, event tree.HookEvent) []tree.HookRun {
	if event == tree.SubagentStart {
		return b.Start(ctx)
	}
	return b.Stop(ctx, "done", 1)
}

// TestInputAndEnvironment: a command reads JSON, in the workspace, without keys.
func TestInputAndEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ran := bound(t, dir, sh(tree.SubagentStop, "cat > in; env > env; ls > /dev/null")).Stop(t.Context(), "done", 1)
	if ran[0].Outcome != tree.HookPassed {
		t.Fatalf("%+v", ran)
	}
	var got map[string]any
	if err := json.Unmarshal(read(t, dir, "in"), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"hook_event_name": "SubagentStop", "session_id": "s", "task_id": "t", "parent_task_id": "p", "run": 2.0,
		"agent_type": "explore", "prompt": "look", "cwd": dir, "last_message": "done", "stop_hook_active": true,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	env := string(read(t, dir, "env"))
	if strings.Contains(env, "secret") || !strings.Contains(env, "LC_ALL=C") || !strings.Contains(env, "COPPICE_TASK_ID=t") {
		t.Errorf("the environment is %s", env)
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestHooksStayInTheWorkspace: a link in its place leads no command elsewhere.
func TestHooksStayInTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"work/who": "agent", "other/who": "secret"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(filepath.Join(dir, "work"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	if err := os.Rename(filepath.Join(dir, "work"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("other", filepath.Join(dir, "work")); err != nil {
		t.Fatal(err)
	}
	h := hook.New(hook.Config{Specs: []hook.Spec{sh(tree.SubagentStart, "cat who; pwd")}, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	t.Cleanup(h.Close)
	where := subject
	where.Dir, where.Open = filepath.Join(dir, "work"), func() (*os.File, error) { return root.Open(".") }
	ran := ask(t.Context(), h.For(where, nil), tree.SubagentStart)
	if len(ran) != 1 || ran[0].Output != "agent"+filepath.Join(dir, "moved") {
		t.Errorf("got %+v", ran)
	}
}

// TestHostileHooks: whatever a hook does is an outcome, in bounded time and space,
// and nothing of it is left.
func TestHostileHooks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		command []string
		outcome tree.HookOutcome
		message string
	}{
		"hangs":              {[]string{"sleep", "1000"}, tree.HookTimedOut, "stopped after 2s"},
		"hangs and shrugs":   {[]string{"sh", "-c", "trap '' TERM INT HUP; while :; do sleep 1; done"}, tree.HookTimedOut, "stopped after 2s"},
		"floods":             {[]string{"sh", "-c", "head -c 100000000 /dev/zero | tr '\\0' 'x'; echo end"}, tree.HookPassed, "xxx"},
		"forks a daemon":     {[]string{"sh", "-c", "sleep 1000 & echo $! > pid; echo on"}, tree.HookPassed, "on"},
		"forks and hangs":    {[]string{"sh", "-c", "sleep 1000 & echo $! > pid; wait"}, tree.HookTimedOut, "stopped after 2s"},
		"ends by a signal":   {[]string{"sh", "-c", "kill -9 $$"}, tree.HookFailed, "signal: killed"},
		"writes no UTF-8":    {[]string{"printf", `a\377\300b`}, tree.HookPassed, "a\uFFFDb"},
		"is not there":       {[]string{"no-such-program-here"}, tree.HookMissing, "executable file not found"},
		"is not there, path": {[]string{"./hook"}, tree.HookMissing, "no such file"},
		"is not executable":  {[]string{"./plain"}, tree.HookMissing, "permission denied"},
		"is a directory":     {[]string{"./dir"}, tree.HookMissing, ""},
		"reads nothing":      {[]string{"true"}, tree.HookPassed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "plain"), []byte("#!/bin/sh\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "dir"), 0o700); err != nil {
				t.Fatal(err)
			}
			spec := hook.Spec{Name: "h", Event: tree.SubagentStart, Command: c.command, Timeout: 2 * time.Second}
			if name == "floods" {
				spec.Timeout = time.Minute
			}
			ran := bound(t, dir, spec).Start(t.Context())[0]
			if ran.Outcome != c.outcome || !strings.Contains(ran.Message, c.message) {
				t.Errorf("%s: %q", ran.Outcome, ran.Message)
			}
			if len(ran.Output) > 17<<10 || len(ran.Message) > 1<<10 {
				t.Errorf("%d bytes of output, %d of message", len(ran.Output), len(ran.Message))
			}
			if name == "floods" && !(strings.HasSuffix(ran.Output, "end") && strings.Contains(ran.Output, "bytes left out")) {
				t.Errorf("the output ends with %.100q", ran.Output[max(0, len(ran.Output)-100):])
			}
			if _, err := os.Stat(filepath.Join(dir, "pid")); err == nil {
				proctest.Gone(t, pidOf(t, string(read(t, dir, "pid"))))
			}
		})
	}
}

// pidOf reads the id of a process.
func pidOf(t *testing.T, text string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestCancelledHook: a run that is lost takes its hooks along.
func TestCancelledHook(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	said := proctest.OpenLines(t, filepath.Join(dir, "pid"))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan []tree.HookRun)
	go func() {
		done <- bound(t, dir, sh(tree.SubagentStart, "echo $$ > pid; sleep 1000")).Start(ctx)
	}()
	pid := pidOf(t, said.Next())
	cancel()
	<-done
	proctest.Gone(t, pid)
}

// TestHTTP calls URLs that answer in many ways.
func TestHTTP(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in map[string]any
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in["task_id"] != "t" || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		code, err := strconv.Atoi(r.URL.Query().Get("code"))
		if err != nil {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Location", "/")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, r.URL.Query().Get("body")+strings.Repeat(" ", len(r.URL.Query().Get("flood"))<<12))
	}))
	t.Cleanup(server.Close)
	for query, want := range map[string]tree.HookRun{
		`code=200`: {Event: tree.SubagentStop, Outcome: tree.HookPassed},
		`code=200&body={"decision":"block","reason":"not+yet"}`: {Event: tree.SubagentStop, Outcome: tree.HookBlocked, Output: "not yet"},
		`code=202&body={"decision":"approve"}`:                  {Event: tree.SubagentStop, Outcome: tree.HookPassed},
		`code=200&body={"decision":"maybe"}`:                    {Event: tree.SubagentStop, Outcome: tree.HookFailed},
		`code=200&body=[1]`:                                     {Event: tree.SubagentStop, Outcome: tree.HookFailed},
		`code=500&body={"decision":"block"}`:                    {Event: tree.SubagentStop, Outcome: tree.HookFailed},
		`code=302`:                                              {Event: tree.SubagentStop, Outcome: tree.HookFailed},
		`code=200&flood=xxxxxxxxxxxxxxxxxxxxxxxx`:               {Event: tree.SubagentStop, Outcome: tree.HookFailed},
		`code=200&body={"context":"be+brief"}`:                  {Event: tree.SubagentStart, Outcome: tree.HookPassed, Output: "be brief"},
		`code=200&body={"decision":"block"}`:                    {Event: tree.SubagentStart, Outcome: tree.HookFailed},
		`hang`:                                                  {Event: tree.SubagentStart, Outcome: tree.HookTimedOut},
	} {
		spec := hook.Spec{Name: "h", Event: want.Event, URL: server.URL + "/?" + query, Timeout: 2 * time.Second}
		spec.URL = strings.NewReplacer(`"`, "%22", "{", "%7B", "}", "%7D").Replace(spec.URL)
		ran := ask(t.Context(), bound(t, t.TempDir(), spec), want.Event)[0]
		if ran.Outcome != want.Outcome || ran.Output != want.Output {
			t.Errorf("%s: %s, %q, %q", query, ran.Outcome, ran.Output, ran.Message)
		}
	}
	nobody := hook.Spec{Name: "h", Event: tree.SubagentStop, URL: "http://127.0.0.1:1/"}
	if ran := bound(t, t.TempDir(), nobody).Stop(t.Context(), "", 0)[0]; ran.Outcome != tree.HookMissing {
		t.Errorf("nobody listens: %s, %q", ran.Outcome, ran.Message)
	}
}

// TestURLsAreNotShown: watchers are told why a call has failed, not whom it was for.
func TestURLsAreNotShown(t *testing.T) {
	t.Parallel()
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(silent.Close)
	for url, want := range map[string]string{
		"http://127.0.0.1:1":  "connection refused",
		"https://127.0.0.1:1": "connection refused",
		silent.URL:            "EOF",
		"http://127.0.0.1:x":  "invalid port",
	} {
		spec := hook.Spec{Name: "h", Event: tree.SubagentStop, URL: url + "/services/hidden?token=hidden"}
		ran := bound(t, t.TempDir(), spec).Stop(t.Context(), "", 0)[0]
		if strings.Contains(ran.Message, "hidden") || !strings.Contains(ran.Message, want) {
			t.Errorf("%s: %s, %q", url, ran.Outcome, ran.Message)
		}
	}
}

// TestWhichHooksRun: those that match, the worker's own before the definition's,
// which need the worker's leave.
func TestWhichHooksRun(t *testing.T) {
	t.Parallel()
	own := []hook.Spec{
		{Name: "all", Event: tree.SubagentStart, Command: []string{"true"}},
		{Name: "review", Event: tree.SubagentStart, Matcher: "review-*", Command: []string{"true"}},
		{Name: "ex", Event: tree.SubagentStart, Matcher: "ex*", Command: []string{"true"}},
	}
	foreign := []hook.Spec{{Name: "mine", Event: tree.SubagentStart, Command: []string{"true"}}}
	for _, leave := range []bool{false, true} {
		h := hook.New(hook.Config{Specs: own, Definitions: leave, Environ: os.Environ()})
		t.Cleanup(h.Close)
		names := ""
		for _, r := range h.For(subject, foreign).Start(t.Context()) {
			names += r.Name + " for " + r.Matcher + " " + r.Outcome.String() + "; "
		}
		want := "all for * passed; ex for ex* passed; mine for explore forbidden; "
		if leave {
			want = "all for * passed; ex for ex* passed; mine for explore passed; "
		}
		if names != want {
			t.Errorf("got  %s\nwant %s", names, want)
		}
		if h.For(hook.Subject{Agent: "plan"}, nil).Stop(t.Context(), "", 0) != nil {
			t.Error("something hangs on a stop")
		}
	}
	if hook.New(hook.Config{Specs: own[1:2]}).For(subject, nil) != nil {
		t.Error("hooks of another agent are for this one too")
	}
}

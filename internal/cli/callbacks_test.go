package cli

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// called is a server that counts the calls it gets, and says of each to heard.
func called(t *testing.T, status int) (url string, heard chan string) {
	t.Helper()
	heard = make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		heard <- r.URL.Path
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	return server.URL, heard
}

// nightly is a directory with a scenario, and agents that call a URL at their end.
func nightly(t *testing.T, url string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range map[string]string{
		"nightly.md": "---\nname: nightly\ndescription: Reports.\nmode: both\non_complete: " + url + "/ended\n---\nYou report.\n",
		"talk.yaml": `
steps:
  - when: {depth: 0, turn: 1, prompt: send}
    calls: [{tool: task, input: {description: d, prompt: Write., subagent_type: nightly}}]
  - text: done
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// interrupter is a stream that interrupts a run as soon as it is told something.
type interrupter struct {
	bytes.Buffer
	at        string // empty: never
	interrupt func()
}

func (i *interrupter) Write(text []byte) (int, error) {
	if i.at != "" && bytes.Contains(text, []byte(i.at)) {
		i.interrupt()
	}
	return i.Buffer.Write(text)
}

// runs plays a run in this process, and interrupts it when it says something on standard
// error, if that is not empty.
func runs(t *testing.T, at, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var out bytes.Buffer
	err := interrupter{at: at, interrupt: interrupt}
	args = append([]string{"run", "--agents-dir", dir, "--scenario", filepath.Join(dir, "talk.yaml"), "--workspace", dir}, args...)
	code = Main(ctx, Process{Args: args, Stdout: &out, Stderr: &err, Getenv: func(string) string { return "" }})
	return code, out.String(), err.String()
}

// TestARunCallsBackBeforeItEnds, whoever of the tree wants to be told.
func TestARunCallsBackBeforeItEnds(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"a root": {"--agent", "nightly", "report"}, "a child": {"send"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, heard := called(t, http.StatusOK)
			code, stdout, stderr := runs(t, "", nightly(t, url), append([]string{"--callback-hosts", "127.0.0.1"}, args...)...)
			if code != exitOK || len(heard) != 1 || !strings.HasSuffix(stdout, "\n\ndone\n") {
				t.Errorf("exit code %d, %d calls:\n%s%s", code, len(heard), stdout, stderr)
			}
			if want := "callback to " + url + "/ended answered\n"; !strings.Contains(stdout+stderr, want) {
				t.Errorf("nobody is told %q:\n%s%s", want, stdout, stderr)
			}
		})
	}
}

// TestARunCallsWhomItsLineNames, whatever its agent says.
func TestARunCallsWhomItsLineNames(t *testing.T) {
	t.Parallel()
	url, heard := called(t, http.StatusOK)
	dir := nightly(t, "http://localhost:9")
	code, stdout, stderr := runs(t, "", dir, "--callback-hosts", "127.0.0.1", "--agent", "nightly", "--on-complete", url+"/ended", "-q", "report")
	if code != exitOK || len(heard) != 1 || stdout != "done\n" || stderr != "" {
		t.Errorf("exit code %d, %d calls:\n%s%s", code, len(heard), stdout, stderr)
	}
	if code, _, stderr := runs(t, "", dir, "--on-complete", "nobody", "-q", "report"); code != exitRefused || !strings.Contains(stderr, "on_complete: expected a URL") {
		t.Errorf("no URL: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := runs(t, "", dir, "--on-approval", url, "-q", "report"); code != exitUsage || !strings.Contains(stderr, "--on-approval is for a run at an orchestrator") {
		t.Errorf("nobody could be called: exit code %d: %s", code, stderr)
	}
}

// TestARunSaysWhomItMayNotCall.
func TestARunSaysWhomItMayNotCall(t *testing.T) {
	t.Parallel()
	url, heard := called(t, http.StatusOK)
	code, stdout, stderr := runs(t, "", nightly(t, url), "--agent", "nightly", "-q", "report")
	if code != exitOK || len(heard) != 0 || stdout != "done\n" || !strings.Contains(stderr, "--callback-hosts") {
		t.Errorf("exit code %d, %d calls:\n%s%s", code, len(heard), stdout, stderr)
	}
}

// TestARunThatIsNotAnsweredSaysSo, when it does not wait for that any more.
func TestARunThatIsNotAnsweredSaysSo(t *testing.T) {
	t.Parallel()
	url, _ := called(t, http.StatusServiceUnavailable)
	dir := nightly(t, url)
	data := filepath.Join(dir, "data")
	_, stdout, stderr := runs(t, "waiting for the callback", dir, "--data", data, "--agent", "nightly", "--callback-hosts", "127.0.0.1", "report")
	for _, want := range []string{
		"coppice: waiting for the callback to " + url + "/ended, for up to 12s\n",
		"coppice: still unanswered: the callback to " + url + "/ended\n",
		"coppice: the session is kept; continue it with: coppice dev --data " + data,
	} {
		if !strings.Contains(stderr, want) || !strings.HasSuffix(stdout, "\n\ndone\n") {
			t.Errorf("%q is not said:\n%s%s", want, stdout, stderr)
		}
	}
}

package assembly_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/proctest"
	"github.com/coppice-run/coppice/internal/store"
)

// logged waits until a process has logged a message with a level, and gives its line.
func (d *deployment) logged(level, message string) string {
	d.t.Helper()
	for begun := time.Now(); time.Since(begun) < patience; time.Sleep(10 * time.Millisecond) {
		for line := range strings.Lines(d.logs.String()) {
			var said struct{ Level, Msg string }
			if json.Unmarshal([]byte(line), &said) == nil && said.Level == level && strings.HasPrefix(said.Msg, message) {
				return line
			}
		}
	}
	d.t.Fatalf("nobody has logged %s %q", level, message)
	return ""
}

// times counts how often processes have logged a message.
func (d *deployment) times(message string) int {
	return strings.Count(d.logs.String(), fmt.Sprintf("%q:%q", "msg", message))
}

// allJSON checks that whatever was logged is JSON.
func (d *deployment) allJSON() {
	d.t.Helper()
	for line := range strings.Lines(d.logs.String()) {
		if !json.Valid([]byte(line)) {
			d.t.Errorf("a line of the logs is no JSON: %s", line)
		}
	}
}

// TestEachOutageOfRedisIsLogged once, when it begins and when it is over. The first one is over
// after the orchestrator has started.
func TestEachOutageOfRedisIsLogged(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	d.redis.Kill()
	d.orchestratorFlags = []string{"--redis-url", "redis://:the-password-of-redis@" + d.redis.Addr()}
	d.startOrchestrator(0)
	d.logged("INFO", "serving")
	d.logged("WARN", "the Redis client reports a failure")
	const redisAway = "Redis can't be reached; nothing is lost, and work continues more slowly until it is back"
	if line := d.logged("WARN", redisAway); !strings.Contains(line, d.redis.Addr()) {
		t.Errorf("it does not say where: %s", line)
	}
	const back = "Redis can be reached again"
	for i := range 2 {
		d.redis.Restart()
		until(t, "the end of an outage is logged", func() bool { return d.times(back) == i+1 })
		d.redis.Kill()
		until(t, "the begin of an outage is logged", func() bool { return d.times(redisAway) == i+2 })
	}
	d.redis.Restart()
	until(t, "the end of the last outage is logged", func() bool { return d.times(back) == 3 })
	if n := d.times(redisAway); n != 3 {
		t.Errorf("the begins of three outages are logged %d times", n)
	}
	d.allJSON()
	if strings.Contains(d.logs.String(), "the-password-of-redis") {
		t.Error("the password is logged")
	}
}

// TestARefusalOfRedisIsNoOutage: workers whom Redis serves wait there for hints that do not come, so
// nothing continues, and the reason is no network.
func TestARefusalOfRedisIsNoOutage(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	d.orchestratorFlags = []string{"--redis-url", "redis://nobody:the-password-of-redis@" + d.redis.Addr()}
	d.startOrchestrator(0)
	line := d.logged("WARN", "Redis refuses the user or the password of this orchestrator; nothing is lost, but runs may wait until that is corrected")
	if !strings.Contains(line, d.redis.Addr()) || !strings.Contains(line, "WRONGPASS") {
		t.Errorf("it does not say where or why: %s", line)
	}
	if strings.Contains(d.logs.String(), "Redis can't be reached") {
		t.Error("Redis is said to be away")
	}
}

// TestProcessesSayThatTheyStop, once, when they are told to.
func TestProcessesSayThatTheyStop(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	d.startOrchestrator(0)
	d.logged("INFO", "serving")
	d.startWorker("worker 1")
	d.logged("INFO", "working")
	d.terminate("worker 1")
	d.terminate(orchestratorName(0))
	if n := d.times("stopping"); n != 2 {
		t.Errorf("it was logged %d times, want 2", n)
	}
	d.allJSON()
}

// TestAWorkerWithoutAProviderIsWarnedOf: what it does is no work.
func TestAWorkerWithoutAProviderIsWarnedOf(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	const told = "no model provider is configured"
	d.startWorker("with a scenario")
	d.logged("INFO", "working")
	if n := strings.Count(d.logs.String(), told); n != 0 {
		t.Errorf("with a scenario it is told of %d times", n)
	}
	d.asks = true
	d.environ = map[string][]string{"worker": {"ANTHROPIC_API_KEY=", "ANTHROPIC_BASE_URL=", "OPENAI_API_KEY=", "OPENAI_BASE_URL="}}
	d.startWorker("with nothing")
	if line := d.logged("WARN", told); !strings.Contains(line, "ANTHROPIC_API_KEY") {
		t.Errorf("it is not said what to set: %s", line)
	}
}

// TestAWorkerThatCannotWorkDoesNotSayThatItDoes: it ends with the reason.
func TestAWorkerThatCannotWorkDoesNotSayThatItDoes(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	for name, flags := range map[string][]string{
		"no slots": {"--slots", "0"}, "no range": {"--fetch-allow", "10.0.0.0/64"}, "no skills": {"--skills-dir", filepath.Join(d.dir, "none")},
	} {
		d.workerFlags = flags
		d.startWorker(name)
		err := d.processes[name].Wait()
		delete(d.processes, name)
		if exit, ended := errors.AsType[*exec.ExitError](err); !ended || exit.ExitCode() != 1 {
			t.Errorf("%s: it ended with %v", name, err)
		}
	}
	if worked, ended := d.times("working"), d.times("the worker ended"); worked != 0 || ended != 3 {
		t.Errorf("%d said that they work and %d that they ended, want 0 and 3", worked, ended)
	}
}

func TestDurationsAreLoggedAsText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		730048773: "730ms", 1500 * time.Millisecond: "1.5s", 42: "42ns", 0: "0s", -2 * time.Second: "-2s", time.Hour: "1h0m0s",
	} {
		var written bytes.Buffer
		slog.New(assembly.LogHandler(&written)).Info("it waits", "wait", d, "n", 7)
		var line struct {
			Wait string
			N    int
		}
		if err := json.Unmarshal(written.Bytes(), &line); err != nil || line.Wait != want || line.N != 7 {
			t.Errorf("%d is logged as %q and 7 as %d, %v; want %q", d, line.Wait, line.N, err, want)
		}
	}
}

// TestADatabaseThatRefusesIsNotAskedAgain starts orchestrators on databases that somebody
// has to do something about, and on one that may come yet.
func TestADatabaseThatRefusesIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	server := pgtest.Start(t)
	url, prod := server.URL(), server.Database(t)
	db, err := store.Open(t.Context(), store.Config{Database: prod, NewInstallation: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ database, want string }{
		"there is no such database":  {strings.Replace(url, "/postgres?", "/nosuch?", 1), "createdb --owner postgres nosuch"},
		"there is no such user":      {strings.Replace(url, "//postgres@", "//nobody@", 1), "user nobody may not connect"},
		"it is another installation": {prod, "it is the database of the installation prod, not stage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "orchestrator"), "--listen", "127.0.0.1:0", "--database", c.database, "--installation", "stage").CombinedOutput()
			if err == nil || !bytes.Contains(out, []byte(c.want)) || bytes.Contains(out, []byte("retry_in")) {
				t.Errorf("it ended with %v, want it to say %q and not to try again:\n%s", err, c.want, out)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		d := deploy(t, `steps: [{text: done}]`)
		d.database = "postgres://postgres@" + proctest.FreeAddress(t) + "/postgres?sslmode=disable"
		d.startOrchestrator(0)
		var line struct {
			RetryIn string `json:"retry_in"`
		}
		if err := json.Unmarshal([]byte(d.logged("WARN", "opening the database failed")), &line); err != nil || !strings.HasSuffix(line.RetryIn, "s") {
			t.Errorf("it tries again in %q, %v", line.RetryIn, err)
		}
	})
}

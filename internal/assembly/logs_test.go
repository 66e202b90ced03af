package assembly_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
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

// allJSON checks that whatever was logged is JSON.
func (d *deployment) allJSON() {
	d.t.Helper()
	for line := range strings.Lines(d.logs.String()) {
		if !json.Valid([]byte(line)) {
			d.t.Errorf("a line of the logs is no JSON: %s", line)
		}
	}
}

// TestRedisIsMissedAtTheStart starts an orchestrator before its Redis.
func TestRedisIsMissedAtTheStart(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	d.redis.Kill()
	d.orchestratorFlags = []string{"--redis-url", "redis://:the-password-of-redis@" + d.redis.Addr()}
	d.startOrchestrator(0)
	d.logged("INFO", "serving")
	d.logged("WARN", "the Redis client reports a failure")
	if line := d.logged("WARN", "Redis can't be reached"); !strings.Contains(line, d.redis.Addr()) {
		t.Errorf("it does not say where: %s", line)
	}
	d.redis.Restart()
	d.logged("INFO", "Redis is there")
	d.allJSON()
	if strings.Contains(d.logs.String(), "the-password-of-redis") {
		t.Error("the password is logged")
	}
}

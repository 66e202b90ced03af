package assembly

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coppice-run/coppice/internal/dispatch"
	"github.com/coppice-run/coppice/internal/redact"
)

// TestTheRedisClientIsHeardAsJSON has it say things, one after another.
func TestTheRedisClientIsHeardAsJSON(t *testing.T) {
	t.Parallel()
	type said struct {
		after time.Duration
		text  string
	}
	for name, c := range map[string]struct {
		says []said
		want []string
	}{
		"a burst is one line":              {[]said{{0, "no way"}, {0, "no way"}, {time.Second, "no way"}}, []string{"no way"}},
		"another text is another line":     {[]said{{0, "no way"}, {0, "refused"}, {0, "no way"}}, []string{"no way", "refused"}},
		"what goes on is said again":       {[]said{{0, "no way"}, {dispatch.FailureLogInterval, "no way"}}, []string{"no way", "no way"}},
		"its own name is not said":         {[]said{{0, "redis: no way"}}, []string{"no way"}},
		"secrets are not said":             {[]said{{0, "AUTH a-long-password"}}, []string{"AUTH [redacted: PASSWORD]"}},
		"what fills several lines is one":  {[]said{{0, "no\nway"}}, []string{"no\nway"}},
		"a pause begins with the last one": {[]said{{0, "no way"}, {dispatch.FailureLogInterval, "no way"}, {time.Second, "no way"}}, []string{"no way", "no way"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var written bytes.Buffer
				secrets, _ := redact.New(redact.Secret{Name: "PASSWORD", Value: "a-long-password"})
				l := newRedisLog(slog.New(secrets.Handler(slog.NewJSONHandler(&written, nil))))
				for _, s := range c.says {
					time.Sleep(s.after)
					l.Printf(t.Context(), "%s", s.text)
				}
				checkSaid(t, &written, c.want)
			})
		})
	}
}

// checkSaid holds the lines of a log against what they should say.
func checkSaid(t *testing.T, written *bytes.Buffer, want []string) {
	t.Helper()
	var said []string
	for lines := json.NewDecoder(written); lines.More(); {
		var line struct{ Level, Error string }
		if err := lines.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if line.Level != "WARN" {
			t.Errorf("%q is said at level %s", line.Error, line.Level)
		}
		said = append(said, line.Error)
	}
	if !slices.Equal(said, want) {
		t.Errorf("it said %q, want %q", said, want)
	}
}

package redact_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/redact"
)

type secretWords struct{ secret string }

func (s secretWords) LogValue() slog.Value { return slog.GroupValue(slog.String("of", s.secret)) }

type stringer struct{ secret string }

func (s stringer) String() string { return "it is " + s.secret }

func TestLogs(t *testing.T) {
	t.Parallel()
	r := known(t)
	texts := 0
	for name, s := range planted {
		for form, made := range forms {
			text := made(s)
			var written bytes.Buffer
			for _, next := range []slog.Handler{slog.NewTextHandler(&written, nil), slog.NewJSONHandler(&written, nil)} {
				log := slog.New(r.Handler(next))
				log.Info(text) //nolint:sloglint // what somebody has logged after all
				log.Info("m", "text", text, "error", fmt.Errorf("doing: %w", errors.New(text)), text, 1)
				log.Info("m", "any", map[string]any{"k": []string{text}}, "bytes", []byte(text), "struct", struct{ A string }{text})
				log.Info("m", "valuer", secretWords{text}, "stringer", stringer{text}, slog.Group("g", slog.Group("h", "k", text)))
				log.With("k", text, "e", errors.New(text)).WithGroup("g").With("l", text).Info("m", "after", 1)
				log.WithGroup(text).Info("m", "k", 1)
			}
			texts++
			if found := left(written.String()); found != "" {
				t.Fatalf("%s as %s is in the log: %s is left in\n%s", name, form, found, written.String())
			}
			if n := strings.Count(written.String(), "[redacted: "+name); n < 20 {
				t.Errorf("%s as %s: named %d times in\n%s", name, form, n, written.String())
			}
		}
	}
	t.Logf("%d texts in 14 places of 2 kinds of logs, 0 left", texts)
}

func TestLogsKeepTheirKinds(t *testing.T) {
	t.Parallel()
	var written, plain bytes.Buffer
	write := func(h slog.Handler) {
		slog.New(h).With("a", 1).WithGroup("g").Info("m", "n", 7, "f", 1.5, "t", true, "d", time.Second, "e", errors.New("x"), "nil", nil, "m", map[string]int{"a": 1})
	}
	options := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	write(known(t).Handler(slog.NewJSONHandler(&written, options)))
	write(slog.NewJSONHandler(&plain, options))
	if written.String() != plain.String() || !json.Valid(written.Bytes()) {
		t.Errorf("logged %s, want %s", written.String(), plain.String())
	}
	var number bytes.Buffer
	r, _ := redact.New(redact.Secret{Name: "N", Value: "123456789012345"})
	slog.New(r.Handler(slog.NewTextHandler(&number, nil))).Info("m", "n", int64(123456789012345))
	if strings.Contains(number.String(), "123456789012345") {
		t.Errorf("logged %s", number.String())
	}
}

func TestRefusalsAreToldByName(t *testing.T) {
	t.Parallel()
	flags := redact.Flags{RedactEnv: []string{"MINE", "NOPE"}}
	opened, err := flags.Open([]string{"MINE=short", "THEIR_KEY=tiny", "A_KEY=a-long-value"}, redact.Secret{Name: "other", Value: "brief"})
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	opened.Report(t.Context(), slog.New(slog.NewTextHandler(&written, nil)))
	for _, want := range []string{"level=WARN msg=\"a secret is not redacted\" name=MINE", "level=WARN msg=\"a secret is not redacted\" name=NOPE why=\"there is no such variable\"", "level=INFO msg=\"a secret is not redacted\" name=THEIR_KEY", "name=other"} {
		if strings.Count(written.String(), want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, written.String())
		}
	}
	for _, value := range []string{"short", "tiny", "brief"} {
		if strings.Contains(written.String(), value) {
			t.Errorf("the value %s is in\n%s", value, written.String())
		}
	}
	if opened.String("a-long-value") != "[redacted: A_KEY]" {
		t.Error("what can be looked for is not")
	}
	if _, err := (redact.Flags{RedactFile: "/nowhere"}).Open(nil); err == nil {
		t.Error("a file that is not there was read")
	}
}

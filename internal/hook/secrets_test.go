package hook_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/hook"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestSecretsAreNotCut: a text that is a secret again and again is cut within one wherever it is
// cut, and no part of it may remain.
func TestSecretsAreNotCut(t *testing.T) {
	t.Parallel()
	const secret = "sk-abc/DEF+ghi=0123"
	secrets, refused := redact.New(redact.Secret{Name: "THE_KEY", Value: secret})
	if len(refused) > 0 {
		t.Fatal(refused)
	}
	text := "." + strings.Repeat(secret+" ", 2000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]string{}
		switch r.URL.Path {
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, text)
			return
		case "/context":
			answer["context"] = text
		case "/reason":
			answer["decision"], answer["reason"] = "block", text
		case "/decision":
			answer["decision"] = text
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(event tree.HookEvent, path string) hook.Spec {
		return hook.Spec{Name: "h", Event: event, URL: server.URL + path}
	}
	for name, spec := range map[string]hook.Spec{
		"a command's context":  sh(tree.SubagentStart, "cat text"),
		"a command's reason":   sh(tree.SubagentStop, "cat text >&2; exit 2"),
		"a command's failure":  sh(tree.SubagentStop, "cat text >&2; exit 3"),
		"an answer's context":  at(tree.SubagentStart, "/context"),
		"an answer's reason":   at(tree.SubagentStop, "/reason"),
		"an answer's decision": at(tree.SubagentStop, "/decision"),
		"an answer's failure":  at(tree.SubagentStop, "/fails"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hook.New(hook.Config{Specs: []hook.Spec{spec}, Environ: []string{"PATH=" + os.Getenv("PATH")}, Secrets: secrets})
			t.Cleanup(h.Close)
			where := subject
			where.Dir = dir
			ran := ask(t.Context(), h.For(where, nil), spec.Event)[0]
			for _, got := range []string{ran.Output, ran.Message} {
				for _, part := range []string{"sk-", "abc", "DEF", "ghi", "123"} {
					if at := strings.Index(got, part); at >= 0 {
						t.Errorf("%d bytes, with %q at %d: %.100q", len(got), part, at, got[max(0, at-40):])
					}
				}
			}
			if !strings.Contains(ran.Message, "[redacted: THE_KEY]") {
				t.Errorf("%s: %.100q", ran.Outcome, ran.Message)
			}
		})
	}
}

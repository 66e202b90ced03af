package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tool"
)

// No secret of the worker in a long result is kept or shown, and none is cut in two first.
func TestResultsKeepNoSecret(t *testing.T) {
	t.Parallel()
	const key = "sk-abcDEFghi0123456789"
	secrets, _ := redact.New(redact.Secret{Name: "THE_KEY", Value: key})
	dir := t.TempDir()
	ws, err := tool.OpenWorkspace(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	server := newTestServer()
	addRaw(server, &sdk.Tool{Name: "tell"}, func(_ context.Context, input json.RawMessage) (*sdk.CallToolResult, error) {
		many := strings.Repeat(key, 10_000)
		if string(input) != "{}" {
			return nil, errors.New(many)
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ResourceLink{Name: many, URI: many}, &sdk.TextContent{Text: many}}}, nil
	})
	k := keep(t, quick(), web(overHTTP(t, server, nil).URL))
	for _, input := range []string{`{}`, `{"fail":true}`} {
		got := k.tool("mcp__s__tell").Call(t.Context(), tool.Call{Input: json.RawMessage(input), Workspace: ws, Secrets: secrets}).(tool.Done)
		files, err := filepath.Glob(filepath.Join(dir, tool.OutputDir, "*.txt"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %q are kept: %v", input, files, err)
		}
		kept, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if got.IsError == (input == "{}") || !strings.Contains(got.Text, "[redacted: THE_KEY]") {
			t.Errorf("%s: %.300q", input, got.Text)
		}
		for _, part := range []string{key[:6], key[len(key)-6:]} {
			if strings.Contains(got.Text+string(kept), part) {
				t.Errorf("%s: a part of the key is left", input)
			}
		}
	}
}

// Structured content, and most texts of servers, are JSON, where a secret may look different.
func TestResultsKeepNoSecretInJSON(t *testing.T) {
	t.Parallel()
	const password = `o"pen/sesa&me`
	config := fmt.Sprintf(`{"mcpServers":{"s":{"url":"https://mcp.example/","headers":{"X-Password":%q}}}}`, password)
	servers, err := Parse("mcp.json", []byte(config), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := newTestServer()
	addRaw(server, &sdk.Tool{Name: "tell"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: `{"go":"o\"pen/sesa\u0026me","python":"o\"pen/sesa&me","php":"o\"pen\/sesa&me"}`}},
			StructuredContent: map[string]any{"it": "is " + password},
		}, nil
	})
	servers[0].URL = overHTTP(t, server, nil).URL
	k := keep(t, quick(), servers[0])
	got := k.call("tell", "{}")
	want := `{"go":"[redacted]","python":"[redacted]","php":"[redacted]"}` + "\n\n" + `{"it":"is [redacted]"}`
	if got.IsError || got.Text != want {
		t.Errorf("%+v, want %s", got, want)
	}
}

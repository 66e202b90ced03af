package provider_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/provider"
	"github.com/coppice-run/coppice/internal/tree"
)

func choose(f provider.Flags, env map[string]string) (provider.Choice, error) {
	if f.Patience == 0 {
		f.Patience = time.Minute
	}
	return provider.Choose(f, func(name string) string { return env[name] }, slog.New(slog.DiscardHandler), nil)
}

func TestChoice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		flags provider.Flags
		env   map[string]string
		want  string // what was chosen, or the error
	}{
		{"nothing", provider.Flags{}, nil, "no provider key set: playing the built-in demo scenario"},
		{"a key", provider.Flags{}, map[string]string{"ANTHROPIC_API_KEY": "k"}, "asking anthropic/claude-sonnet-5-5"},
		{"another key", provider.Flags{}, map[string]string{"OPENAI_API_KEY": "k"}, "asking openai/gpt-5.4"},
		{"both keys", provider.Flags{}, map[string]string{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "asking anthropic/claude-sonnet-5-5, and openai for their models"},
		{"both, and a model", provider.Flags{Model: "openai/gpt-x"}, map[string]string{"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}, "asking openai/gpt-x, and anthropic for their models"},
		{"a server", provider.Flags{Model: "qwen3:8b"}, map[string]string{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"}, "asking openai/qwen3:8b at http://127.0.0.1:11434/v1"},
		{"a model with a slash", provider.Flags{Model: "meta-llama/Llama-4"}, map[string]string{"OPENAI_BASE_URL": "http://h/v1"}, "asking openai/meta-llama/Llama-4 at http://h/v1"},
		{"a server and no model", provider.Flags{}, map[string]string{"OPENAI_BASE_URL": "http://h/v1"}, "OPENAI_BASE_URL is set: name a model"},
		{"a model and no provider", provider.Flags{Model: "m"}, nil, "--model is set, but no provider is configured: set one of ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_BASE_URL"},
		{"a model of another provider", provider.Flags{Model: "openai/m"}, map[string]string{"ANTHROPIC_API_KEY": "k"}, "the provider openai is not set up: set OPENAI_API_KEY"},
		{"thinking", provider.Flags{Thinking: "much"}, map[string]string{"ANTHROPIC_API_KEY": "k"}, `--thinking is "much"`},
		{"too little thinking", provider.Flags{Thinking: "5"}, map[string]string{"ANTHROPIC_API_KEY": "k"}, `--thinking is "5"`},
		{"no patience", provider.Flags{Patience: -1}, map[string]string{"ANTHROPIC_API_KEY": "k"}, "--patience is -1ns"},
		{"a key and a server from files", provider.Flags{Model: "m"}, map[string]string{"OPENAI_API_KEY": "k\n", "OPENAI_BASE_URL": " http://h/v1\n"}, "asking openai/m at http://h/v1"},
		{"an empty line for a key", provider.Flags{}, map[string]string{"OPENAI_API_KEY": "\n"}, "no provider key set: playing the built-in demo scenario"},
		{"two lines for a key", provider.Flags{}, map[string]string{"ANTHROPIC_API_KEY": "k\nl"}, "ANTHROPIC_API_KEY has a space or a line break in it"},
		{"OpenAI's own server", provider.Flags{}, map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://api.openai.com/v1/"}, "asking openai/gpt-5.4"},
		{"Anthropic's own server", provider.Flags{}, map[string]string{"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "https://API.anthropic.com:443"}, "asking anthropic/claude-sonnet-5-5"},
		{"a server of another's name", provider.Flags{Model: "m"}, map[string]string{"OPENAI_BASE_URL": "https://api.openai.com.example/v1"}, "asking openai/m at https://api.openai.com.example/v1"},
		{"own servers, and no key", provider.Flags{}, map[string]string{"OPENAI_BASE_URL": "https://api.openai.com/v1", "ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, "no provider key set: playing the built-in demo scenario"},
		{"a server without a scheme", provider.Flags{Model: "m"}, map[string]string{"OPENAI_BASE_URL": "127.0.0.1:11434/v1"}, `OPENAI_BASE_URL is "127.0.0.1:11434/v1"; expected`},
		{"a server with a name for a scheme", provider.Flags{Model: "m"}, map[string]string{"OPENAI_BASE_URL": "localhost:11434/v1"}, `OPENAI_BASE_URL is "localhost:11434/v1"; expected`},
		{"a server of no host", provider.Flags{}, map[string]string{"ANTHROPIC_BASE_URL": "http://:8080"}, `ANTHROPIC_BASE_URL is "http://:8080"; expected`},
		{"a server that is no web server", provider.Flags{}, map[string]string{"ANTHROPIC_BASE_URL": "unix:///run/llm.sock"}, `ANTHROPIC_BASE_URL is "unix:///run/llm.sock"; expected`},
		{"no scenario", provider.Flags{Scenario: "/nowhere"}, nil, "reading the scenario"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, err := choose(test.flags, test.env)
			got := c.Description
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, test.want) && !strings.Contains(got, test.want) {
				t.Errorf("got %q", got)
			}
			if _, own := strings.CutSuffix(test.name, "'s own server"); own && strings.Contains(got, " at ") {
				t.Errorf("it is another's: %q", got)
			}
			if demo := strings.Contains(test.want, "the built-in demo"); c.Demo != demo {
				t.Errorf("the demo: %t", c.Demo)
			}
			if asks := strings.HasPrefix(test.want, "asking"); (c.Limiter != nil) != asks {
				t.Errorf("a limiter: %t", c.Limiter != nil)
			}
		})
	}
}

// who answers with the name of the model that was asked for.
type who string

func (w who) Generate(_ context.Context, req *model.Request, _ func(model.Delta)) (*model.Answer, error) {
	return &model.Answer{Blocks: []tree.Block{tree.Text{Text: string(w) + " " + req.Model}}, Stop: tree.StopEndTurn}, nil
}

// TestRequestsGoToTheirProvider: each name to whom it belongs, or to nobody.
func TestRequestsGoToTheirProvider(t *testing.T) {
	t.Parallel()
	a := httptest.NewServer(fakellm.New(fakellm.Config{Model: who("anthropic")}))
	defer a.Close()
	o := httptest.NewServer(fakellm.New(fakellm.Config{Model: who("openai")}))
	defer o.Close()
	for _, test := range []struct{ env, standard, name, want, provider string }{
		{"both", "openai/local", "z", "anthropic z", "anthropic"},
		{"both", "openai/local", "", "anthropic claude-sonnet-5-5", "anthropic"},
		{"openai", "local", "z", "the provider anthropic is not set up", "anthropic"},
		{"openai", "local", "z", "there is no provider scripted: there are anthropic and openai", "scripted"},
		{"both", "openai/local", "", "openai local", ""},
		{"both", "openai/local", "claude-x", "anthropic claude-x", ""},
		{"both", "claude-x", "gpt-y", "openai gpt-y", ""},
		{"both", "claude-x", "o3", "openai o3", ""},
		{"both", "o3", "", "openai o3", ""},
		{"both", "claude-x", "oak", "anthropic oak", ""},
		{"both", "claude-x", "anthropic/z", "anthropic z", ""},
		{"both", "claude-x", "openai/org/z", "openai org/z", ""},
		{"both", "openai/local", "org/z", "openai org/z", ""},
		{"openai", "local", "claude-x", "openai claude-x", ""},
		{"openai", "local", "anthropic/claude-x", "the provider anthropic is not set up", ""},
	} {
		env := map[string]string{"OPENAI_BASE_URL": o.URL + "/v1"}
		if test.env == "both" {
			env["ANTHROPIC_BASE_URL"] = a.URL
		}
		c, err := choose(provider.Flags{Model: test.standard}, env)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		req := &model.Request{
			Provider: test.provider, Model: test.name, Messages: []tree.Message{{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: "who?"}}}},
		}
		answer, err := c.Model.Generate(t.Context(), req, nil)
		var failed *model.Error
		switch {
		case err == nil:
			got = (&tree.Message{Blocks: answer.Blocks}).Text()
			if name, own := c.Model.(model.Router).Route(req); name+" "+own != got {
				t.Errorf("%+v: answered %q, and was to go to %s %s", test, got, name, own)
			}
		case errors.As(err, &failed) && failed.Kind == model.ErrorInvalid:
			got = failed.Err.Error()
		default:
			t.Error(err)
		}
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%+v: answered %q", test, got)
		}
	}
}

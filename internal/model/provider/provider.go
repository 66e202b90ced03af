// Package provider chooses the model for the agents of a process: a scenario if one is named,
// otherwise the providers that the environment configures, otherwise the built-in demo.
package provider

import (
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/anthropic"
	"github.com/coppice-run/coppice/internal/model/ratelimit"
	"github.com/coppice-run/coppice/internal/model/retry"
	"github.com/coppice-run/coppice/internal/model/scripted"
)

// Flags are the command-line options for models.
type Flags struct {
	Scenario string        `env:"COPPICE_SCENARIO" placeholder:"FILE" help:"Scenario that plays the model instead of a provider."`
	Model    string        `env:"COPPICE_MODEL" placeholder:"NAME" help:"Model for agents that name none, for example anthropic/claude-sonnet-5-5."`
	Thinking string        `env:"COPPICE_THINKING" placeholder:"HOW" help:"Reasoning of Anthropic's models: adaptive, or a number of tokens; default: the model's own."`
	OpenAI   string        `name:"openai-api" env:"COPPICE_OPENAI_API" enum:"responses,chat," default:"" placeholder:"NAME" help:"API for OpenAI's models: responses or chat. Default: responses for OpenAI itself, chat for a server at OPENAI_BASE_URL."`
	Effort   string        `name:"openai-effort" env:"COPPICE_OPENAI_EFFORT" enum:"none,minimal,low,medium,high,xhigh,max," default:"" placeholder:"HOW" help:"Reasoning effort of OpenAI's models: none, minimal, low, medium, high, xhigh or max; default: the model's own."`
	Patience time.Duration `env:"COPPICE_PATIENCE" default:"30m" help:"How long failing model calls are retried before the run fails."`
}

// Choice is the chosen model.
type Choice struct {
	Model model.Model
	// Description says in a few words what was chosen and why.
	Description string
	// Demo is set if neither a provider nor a scenario is configured.
	Demo bool
	// Limiter queues requests at the providers' rate limits. It is nil for scenarios.
	Limiter *ratelimit.Limiter
}

// Choose chooses a model. It sends nothing. observer may be nil; otherwise it is notified of
// what delays requests to providers. The error explains a configuration mistake to a person.
func Choose(f Flags, getenv func(string) string, log *slog.Logger, observe retry.Observer) (Choice, error) {
	if f.Scenario != "" {
		return Scripted(f.Scenario)
	}
	thinking, err := readThinking(f.Thinking)
	if err != nil {
		return Choice{}, err
	}
	if f.Patience <= 0 {
		return Choice{}, fmt.Errorf("--patience is %s; it has to be more than 0", f.Patience)
	}
	m := &Models{
		flags: f, log: log, thinking: thinking, limiter: ratelimit.New(log), observer: observe,
	}
	if err := m.open(getenv); err != nil {
		return Choice{}, err
	}
	if len(m.backends) == 0 {
		if f.Model != "" {
			return Choice{}, fmt.Errorf("--model is set, but no provider is configured: set one of %s", Variables())
		}
		return Scripted("")
	}
	return Choice{Model: m, Description: m.describe(), Limiter: m.limiter}, nil
}

// Scripted returns the scenario of a file or, if the path is empty, the built-in demo.
func Scripted(scenario string) (Choice, error) {
	if scenario == "" {
		return Choice{
			Model:       scripted.New(scripted.Survey()),
			Description: "no provider key set: playing the built-in demo scenario",
			Demo:        true,
		}, nil
	}
	s, err := scripted.Load(scenario)
	if err != nil {
		return Choice{}, fmt.Errorf("reading the scenario: %w", err)
	}
	return Choice{Model: scripted.New(s), Description: fmt.Sprintf("playing the scenario %q", scenario)}, nil
}

// minThinking is the smallest token budget that Anthropic accepts.
const minThinking = 1024

func readThinking(text string) (anthropic.Thinking, error) {
	switch text {
	case "":
		return anthropic.Thinking{}, nil
	case "adaptive":
		return anthropic.Thinking{Adaptive: true}, nil
	}
	tokens, err := strconv.ParseInt(text, 10, 64)
	if err != nil || tokens < minThinking {
		return anthropic.Thinking{}, fmt.Errorf("--thinking is %q; expected adaptive, or a number of tokens from %d", text, minThinking)
	}
	return anthropic.Thinking{Tokens: tokens}, nil
}

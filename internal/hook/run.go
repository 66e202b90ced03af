package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/tree"
)

// Limits of input and output, in bytes.
const (
	maxInput   = 128 << 10 // of the prompt, and of the last message
	maxOutput  = 16 << 10  // of the output
	maxMessage = 200       // of the message that watchers see
)

// Config has the hooks of a worker and their environment.
type Config struct {
	Specs []Spec
	// Definitions enables the hooks in agent definitions.
	Definitions bool
	Environ     []string         // of the worker; commands inherit harmless variables
	Secrets     *redact.Redactor // removed from results; nil: none are known
	Now         func() time.Time
}

// Hooks runs the hooks of a worker. It is safe for concurrent use.
type Hooks struct {
	Config
	client *http.Client
}

// New applies the defaults of the configuration.
func New(c Config) *Hooks {
	if c.Now == nil {
		c.Now = time.Now
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // documented to have this type
	transport.MaxIdleConnsPerHost = 2
	return &Hooks{Config: c, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (h *Hooks) Close() { h.client.CloseIdleConnections() }

// Subject is the run of a sub-agent that hooks are about.
type Subject struct {
	Session, Task, Parent string
	Run                   int
	Agent, Prompt         string
	Dir                   string // workspace of the run, and working directory of commands
	// Open opens the workspace. Agents may have replaced its path by a link, so hooks use the
	// opened directory. If it is nil, they use Dir.
	Open func() (*os.File, error)
}

// RunHooks are the hooks of one run.
type RunHooks struct {
	hooks          *Hooks
	subject        Subject
	fromDefinition []Spec // from the agent's definition
}

// For returns the hooks of a run; nil if there are none. definition has the hooks of the run's
// agent definition.
func (h *Hooks) For(s Subject, definition []Spec) *RunHooks {
	b := &RunHooks{hooks: h, subject: s, fromDefinition: definition}
	for _, event := range []tree.HookEvent{tree.SubagentStart, tree.SubagentStop} {
		if own, foreign := b.hooksFor(event); len(own)+len(foreign) > 0 {
			return b
		}
	}
	return nil
}

// hooksFor returns the hooks for an event: first those of the worker, then those of the
// definition.
func (b *RunHooks) hooksFor(event tree.HookEvent) (own, foreign []Spec) {
	own = matching(b.hooks.Specs, event, b.subject.Agent)
	foreign = matching(b.fromDefinition, event, b.subject.Agent)
	return own, foreign[:min(len(foreign), tree.MaxHooks-len(own))]
}

// Start runs the hooks for the start of the run and returns the results in the order of the
// configuration.
func (b *RunHooks) Start(ctx context.Context) []tree.HookRun {
	return b.runAll(ctx, b.input(tree.SubagentStart))
}

// Stop runs the hooks for the stop of the run, with its answer. wentOn is how often stop hooks
// have made the run continue.
func (b *RunHooks) Stop(ctx context.Context, answer string, wentOn int) []tree.HookRun {
	in := b.input(tree.SubagentStop)
	in.LastMessage, in.StopHookActive = excerpt.Head(answer, maxInput), wentOn > 0
	return b.runAll(ctx, in)
}

// input is the JSON input of a hook.
type input struct {
	Event          string `json:"hook_event_name"`
	Session        string `json:"session_id"`
	Task           string `json:"task_id"`
	Parent         string `json:"parent_task_id"`
	Run            int    `json:"run"`
	Agent          string `json:"agent_type"`
	Prompt         string `json:"prompt"`
	Dir            string `json:"cwd"`
	LastMessage    string `json:"last_message,omitempty"`
	StopHookActive bool   `json:"stop_hook_active"`

	event tree.HookEvent
	open  func() (*os.File, error)
}

func (b *RunHooks) input(event tree.HookEvent) *input {
	s := b.subject
	return &input{
		Event: event.String(), Session: s.Session, Task: s.Task, Parent: s.Parent, Run: s.Run,
		Agent: s.Agent, Prompt: excerpt.Head(s.Prompt, maxInput), Dir: s.Dir, event: event, open: s.Open,
	}
}

// runAll runs all hooks for an event concurrently.
func (b *RunHooks) runAll(ctx context.Context, in *input) []tree.HookRun {
	own, foreign := b.hooksFor(in.event)
	if len(own)+len(foreign) == 0 {
		return nil
	}
	body, err := json.Marshal(in)
	if err != nil {
		panic(fmt.Sprintf("hook: encoding its input: %v", err)) // it has only strings and numbers
	}
	ran := make([]tree.HookRun, len(own)+len(foreign))
	var running sync.WaitGroup
	for i, spec := range append(own, foreign...) {
		ran[i] = tree.HookRun{Event: in.event, Name: spec.Name, Matcher: spec.matcher()}
		if i >= len(own) {
			ran[i].Matcher = in.Agent
			if !b.hooks.Definitions {
				ran[i].Outcome = tree.HookForbidden
				ran[i].Message = "the worker runs no hooks that come with a definition (--definition-hooks)"
				continue
			}
		}
		running.Go(func() { b.hooks.runOne(ctx, &spec, in, body, &ran[i]) })
	}
	running.Wait()
	return ran
}

// runOne runs one hook until it ends or its timeout expires.
func (h *Hooks) runOne(ctx context.Context, s *Spec, in *input, body []byte, ran *tree.HookRun) {
	begun := h.Now()
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	var r result
	if len(s.Command) > 0 {
		r = h.command(ctx, s, in, body)
	} else {
		r = h.post(ctx, s, in.event, body)
	}
	if r.outcome != tree.HookPassed && r.outcome != tree.HookBlocked && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r = result{outcome: tree.HookTimedOut, exitCode: r.exitCode, message: fmt.Sprintf("stopped after %s", s.timeout())}
	}
	ran.Outcome, ran.ExitCode = r.outcome, r.exitCode
	ran.Output, ran.Message = strings.ToValidUTF8(r.output, "\uFFFD"), h.oneLine(r.message)
	ran.Millis = max(h.Now().Sub(begun).Milliseconds(), 0)
}

// result is the result of a hook.
type result struct {
	outcome  tree.HookOutcome
	exitCode int
	output   string // for the model
	message  string // for people
}

// passedResult is the result of a hook that does not block. text is its output.
func passedResult(event tree.HookEvent, text string) result {
	r := result{outcome: tree.HookPassed, message: text}
	if event == tree.SubagentStart {
		r.output = strings.TrimSpace(text)
	}
	return r
}

// blockedResult is the result of a stop hook that makes the sub-agent continue.
func blockedResult(reason string) result {
	if reason = strings.TrimSpace(reason); reason == "" {
		reason = "It gave no reason."
	}
	return result{outcome: tree.HookBlocked, output: reason, message: reason}
}

func failedResult(format string, args ...any) result {
	return result{outcome: tree.HookFailed, message: fmt.Sprintf(format, args...)}
}

// failedWithOutput is the result of a hook that failed and may have said why.
func failedWithOutput(what, output string) result {
	if output = strings.TrimSpace(output); output != "" {
		what += ": " + output
	}
	return result{outcome: tree.HookFailed, message: what}
}

// oneLine returns a text on one line, without secrets, truncated.
func (h *Hooks) oneLine(text string) string {
	text = h.Secrets.String(strings.ToValidUTF8(text, "\uFFFD"))
	return excerpt.Short(strings.Join(strings.Fields(text), " "), maxMessage)
}

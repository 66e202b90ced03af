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
	"github.com/coppice-run/coppice/internal/tree"
)

// Bounds of what a hook gets and gives, in bytes.
const (
	maxInput   = 128 << 10 // of the prompt, and of the last message
	maxOutput  = 16 << 10  // of what it says
	maxMessage = 200       // of what watchers see of what it said
)

// Config is the hooks of a worker, and what they run with.
type Config struct {
	Specs []Spec
	// Definitions lets the hooks run that come with agents' definitions.
	Definitions bool
	Environ     []string // of the worker; commands get what is harmless of it
	Now         func() time.Time
}

// Hooks are the hooks of a worker. They may be asked at once.
type Hooks struct {
	Config
	client *http.Client
}

// New makes ready to run hooks.
func New(c Config) *Hooks {
	if c.Now == nil {
		c.Now = time.Now
	}
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is documented to be one
	transport.MaxIdleConnsPerHost = 2
	return &Hooks{Config: c, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close lets go of idle connections.
func (h *Hooks) Close() { h.client.CloseIdleConnections() }

// Subject is the run of a sub-agent that hooks are told of.
type Subject struct {
	Session, Task, Parent string
	Run                   int
	Agent, Prompt         string
	Dir                   string // its workspace; commands run there
	// Open opens the workspace, whatever its path leads to by now: agents may have put a
	// link in its place. nil: it is where the path leads.
	Open func() (*os.File, error)
}

// RunHooks are the hooks of one run.
type RunHooks struct {
	hooks          *Hooks
	subject        Subject
	fromDefinition []Spec // those that come with the definition
}

// For gives the hooks of a run; nil if there are none. Those of the definition are
// for its agent alone.
func (h *Hooks) For(s Subject, definition []Spec) *RunHooks {
	b := &RunHooks{hooks: h, subject: s, fromDefinition: definition}
	for _, event := range []tree.HookEvent{tree.SubagentStart, tree.SubagentStop} {
		if own, foreign := b.hooksFor(event); len(own)+len(foreign) > 0 {
			return b
		}
	}
	return nil
}

// hooksFor gives the hooks for an event: the worker's own, then those of the definition.
func (b *RunHooks) hooksFor(event tree.HookEvent) (own, foreign []Spec) {
	own = matching(b.hooks.Specs, event, b.subject.Agent)
	foreign = matching(b.fromDefinition, event, b.subject.Agent)
	return own, foreign[:min(len(foreign), tree.MaxHooks-len(own))]
}

// Start asks the hooks on the start of the run, and gives what came of each in the
// order in which they are configured.
func (b *RunHooks) Start(ctx context.Context) []tree.HookRun {
	return b.runAll(ctx, b.input(tree.SubagentStart))
}

// Stop asks the hooks on its stop about the answer. wentOn says how often they have
// made the run go on.
func (b *RunHooks) Stop(ctx context.Context, answer string, wentOn int) []tree.HookRun {
	in := b.input(tree.SubagentStop)
	in.LastMessage, in.StopHookActive = excerpt.Head(answer, maxInput), wentOn > 0
	return b.runAll(ctx, in)
}

// input is what a hook reads, as JSON.
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

// runAll runs all hooks for an event at the same time.
func (b *RunHooks) runAll(ctx context.Context, in *input) []tree.HookRun {
	own, foreign := b.hooksFor(in.event)
	if len(own)+len(foreign) == 0 {
		return nil
	}
	body, err := json.Marshal(in)
	if err != nil {
		panic(fmt.Sprintf("hook: encoding its input: %v", err)) // strings and numbers
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

// runOne runs one hook to its end or its timeout.
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
	ran.Output, ran.Message = strings.ToValidUTF8(r.output, "\uFFFD"), oneLine(r.message)
	ran.Millis = max(h.Now().Sub(begun).Milliseconds(), 0)
}

// result is what came of a hook.
type result struct {
	outcome  tree.HookOutcome
	exitCode int
	output   string // for the model
	message  string // for people
}

// passedResult is the result of a hook that has nothing against it, but something to say.
func passedResult(event tree.HookEvent, text string) result {
	r := result{outcome: tree.HookPassed, message: text}
	if event == tree.SubagentStart {
		r.output = strings.TrimSpace(text)
	}
	return r
}

// blockedResult is the result of a hook on a stop that wants the sub-agent to go on.
func blockedResult(reason string) result {
	if reason = strings.TrimSpace(reason); reason == "" {
		reason = "It gave no reason."
	}
	return result{outcome: tree.HookBlocked, output: reason, message: reason}
}

func failedResult(format string, args ...any) result {
	return result{outcome: tree.HookFailed, message: fmt.Sprintf(format, args...)}
}

// oneLine is a text on one line, cut.
func oneLine(text string) string {
	return excerpt.Short(strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " "), maxMessage)
}

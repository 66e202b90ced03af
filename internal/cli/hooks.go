package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/coppice-run/coppice/internal/callback"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/hook"
)

// hookFlags configure hooks and callbacks of this process.
type hookFlags struct {
	Hooks           string   `placeholder:"FILE" help:"YAML file of hooks for the start and stop of sub-agents."`
	DefinitionHooks bool     `help:"Also run the hooks in agent definitions."`
	CallbackHosts   []string `placeholder:"HOST,..." help:"Hosts that on_complete and on_approval may call, as globs. COPPICE_CALLBACK_SECRET signs the calls."`
}

// callbackFlags are the callbacks of a session.
type callbackFlags struct {
	OnComplete string `env:"" placeholder:"URL" help:"URL to call when a run of the root has ended. The orchestrator must allow its host."`
	OnApproval string `env:"" placeholder:"URL" help:"URL to call when a call needs approval."`
}

// setCallbacks sets the callbacks of a request that has none of its own.
func (f callbackFlags) setCallbacks(asked *pb.CreateSessionRequest) {
	asked.OnComplete = cmp.Or(asked.GetOnComplete(), f.OnComplete)
	asked.OnApproval = cmp.Or(asked.GetOnApproval(), f.OnApproval)
}

// hooks reads the file, if there is one.
func (f *hookFlags) hooks() ([]hook.Spec, error) {
	if f.Hooks == "" {
		return nil, nil
	}
	hooks, err := hook.Load(f.Hooks)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return hooks, nil
}

func (f *hookFlags) callbacks(a *app) callback.Config {
	return callback.Config{Hosts: f.CallbackHosts, Secret: a.Getenv("COPPICE_CALLBACK_SECRET")}
}

// hookText describes the result of a hook.
func hookText(h *pb.HookRan) string {
	on := "start"
	if h.GetEvent() == pb.HookEvent_HOOK_EVENT_SUBAGENT_STOP {
		on = "stop"
	}
	outcome := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(h.GetOutcome().String(), "HOOK_OUTCOME_")), "_", " ")
	text := fmt.Sprintf("hook %s on its %s %s after %s", safeLine(h.GetName()), on, outcome, durationText(h.GetDuration().AsDuration()))
	if m := safeLine(h.GetMessage()); m != "" {
		text += ": " + m
	}
	return text
}

// callbackText describes the result of the callback of a run or of an approval.
func callbackText(c *pb.CallbackEnded) string {
	text := "callback to " + safeLine(c.GetUrl())
	if id := c.GetApprovalId(); id != "" {
		text = "callback of the approval " + idEnd(id) + " to " + safeLine(c.GetUrl())
	}
	if c.GetDelivered() {
		return text + " answered"
	}
	return fmt.Sprintf("%s given up after %s: %s", text, plural(int64(c.GetTries()), "attempt"), safeLine(c.GetDetail()))
}

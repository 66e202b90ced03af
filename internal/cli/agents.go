package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tool"
)

type agentsCommand struct {
	List   listAgentsCommand  `cmd:"" default:"withargs" help:"List the agents, and files without a valid definition; with a name, show that agent."`
	Show   showAgentCommand   `cmd:"" help:"Show an agent: its settings, its stored versions and its prompt."`
	Put    putAgentCommand    `cmd:"" help:"Store the definition in a file as the current one of its name."`
	Delete deleteAgentCommand `cmd:"" help:"Delete a stored agent. Its versions remain for tasks that use them."`
}

type listAgentsCommand struct {
	remote
	Name *string `arg:"" optional:"" help:"The agent to show."`
}

// Run lists the agents, or shows one.
func (g *listAgentsCommand) Run(ctx context.Context, a *app) error {
	if g.Name != nil {
		return (&showAgentCommand{remote: g.remote, Name: *g.Name}).Run(ctx, a)
	}
	return g.with(func(c *client) error {
		resp, err := c.agents.ListAgents(ctx, &pb.ListAgentsRequest{})
		if err != nil {
			return during("listing the agents", err)
		}
		for _, agent := range resp.GetAgents() {
			if err := a.printAgent(agent); err != nil {
				return err
			}
		}
		for _, p := range resp.GetProblems() {
			kept := ""
			if p.GetKept() {
				kept = "; its previous content stays in use"
			}
			a.complain(p.GetDetail() + kept)
		}
		return nil
	})
}

// printAgent prints one line: name, mode, description.
func (a *app) printAgent(agent *pb.Agent) error {
	if a.json {
		return a.printJSON(agent)
	}
	l := a.theme()
	line := fmt.Sprintf("%s  %-8s  %s", l.bold.Render(fmt.Sprintf("%-16s", safeLine(agent.GetName()))),
		modeText(agent.GetMode()), safeLine(agent.GetDescription()))
	if width, terminal := a.terminal(a.Stdout); terminal {
		line = ansi.Truncate(line, width, l.ellipsis)
	}
	return a.print(line)
}

type showAgentCommand struct {
	remote
	Name       string `arg:"" help:"The agent."`
	Version    string `env:"" placeholder:"VERSION" help:"Stored version to show; default: the current one."`
	Definition bool   `env:"" help:"Print only the definition, in the form that agents put accepts; byte-exact unless printed to a terminal."`
}

// Run shows an agent.
func (g *showAgentCommand) Run(ctx context.Context, a *app) error {
	if g.Name == "" {
		return usagef("the name of the agent is empty")
	}
	return g.with(func(c *client) error {
		resp, err := c.agents.GetAgent(ctx, &pb.GetAgentRequest{Name: g.Name, Version: g.Version})
		switch {
		case err != nil:
			return during("reading the agent", err)
		case a.json:
			return a.printJSON(resp.GetAgent())
		case g.Definition && !isTerminal(a.Stdout): // byte for byte, so that the file can be put again
			_, err := io.WriteString(a.Stdout, resp.GetAgent().GetDefinition())
			return err
		case g.Definition:
			return a.print(strings.TrimSuffix(safeText(resp.GetAgent().GetDefinition()), "\n"))
		}
		return a.printDefinition(resp)
	})
}

type putAgentCommand struct {
	remote
	File string `arg:"" help:"Markdown with front matter; - reads it from standard input."`
}

// Run puts an agent.
func (g *putAgentCommand) Run(ctx context.Context, a *app) error {
	data, err := a.file(ctx, g.File, "the definition", maxDefinition)
	if err != nil {
		return err
	}
	number := 0
	for line := range bytes.Lines(data) {
		if number++; !utf8.Valid(line) {
			return usagef("%s:%d: expected text in UTF-8", g.File, number)
		}
	}
	return g.with(func(c *client) error {
		resp, err := c.agents.PutAgent(ctx, &pb.PutAgentRequest{Definition: string(data)})
		switch {
		case err != nil:
			return during("putting "+g.File, err)
		}
		a.warnOfTools(resp.GetAgent())
		if a.json {
			return a.printJSON(resp.GetAgent())
		}
		return a.print(safeLine(fmt.Sprintf("%s is now version %s", resp.GetAgent().GetName(), resp.GetAgent().GetVersion())))
	})
}

// warnOfTools warns of tools that are neither part of Coppice nor, judging by their names, of an
// MCP server. More cannot be known here: workers may be of another release.
func (a *app) warnOfTools(agent *pb.Agent) {
	if names := tool.UnknownEntries(agent.GetTools()); len(names) > 0 {
		a.complain(fmt.Sprintf("warning: tools of %s that are not built in: %s; its runs fail on workers that do not have them",
			agent.GetName(), strings.Join(names, ", ")))
	}
	if names := tool.UnknownEntries(append(slices.Clone(agent.GetDisallowedTools()), agent.GetDeferredTools()...)); len(names) > 0 {
		a.complain(fmt.Sprintf("warning: disallowed_tools and deferred_tools of %s list tools that are not built in: %s",
			agent.GetName(), strings.Join(names, ", ")))
	}
}

type deleteAgentCommand struct {
	remote
	Name string `arg:"" help:"The agent."`
}

// Run deletes an agent.
func (g *deleteAgentCommand) Run(ctx context.Context, a *app) error {
	return g.with(func(c *client) error {
		resp, err := c.agents.DeleteAgent(ctx, &pb.DeleteAgentRequest{Name: g.Name})
		switch {
		case err != nil:
			return during("deleting the agent", err)
		case a.json:
			return a.printJSON(resp)
		}
		return a.print(safeLine(fmt.Sprintf("%s is deleted; it was version %s", g.Name, resp.GetVersion())))
	})
}

func modeText(m pb.AgentMode) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "AGENT_MODE_"))
}

func orDefault(s, standard string) string {
	if s == "" {
		return standard
	}
	return s
}

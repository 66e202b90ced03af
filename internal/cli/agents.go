package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

type agentsCommand struct {
	remote
	Name string `arg:"" optional:"" help:"The agent to show."`
}

// Run lists the agents, or shows one.
func (g *agentsCommand) Run(ctx context.Context, a *app) error {
	return g.with(func(c *client) error {
		if g.Name != "" {
			return g.one(ctx, a, c)
		}
		resp, err := c.agents.ListAgents(ctx, &pb.ListAgentsRequest{})
		if err != nil {
			return during("listing the agents", err)
		}
		for _, agent := range resp.GetAgents() {
			if err := a.printAgent(agent); err != nil {
				return err
			}
		}
		return nil
	})
}

// printAgent prints one line: name, mode, description.
func (a *app) printAgent(agent *pb.Agent) error {
	if a.json {
		return a.printJSON(agent)
	}
	l := a.look()
	line := fmt.Sprintf("%s  %-8s  %s", l.bold.Render(fmt.Sprintf("%-16s", safeLine(agent.GetName()))),
		modeText(agent.GetMode()), safeLine(agent.GetDescription()))
	if width, terminal := a.terminal(a.Stdout); terminal {
		line = ansi.Truncate(line, width, l.more)
	}
	return a.print(line)
}

func (g *agentsCommand) one(ctx context.Context, a *app, c *client) error {
	resp, err := c.agents.GetAgent(ctx, &pb.GetAgentRequest{Name: g.Name})
	if err != nil {
		return during("reading the agent", err)
	}
	if a.json {
		return a.printJSON(resp.GetAgent())
	}
	agent, l := resp.GetAgent(), a.look()
	lines := []string{l.bold.Render(safeLine(agent.GetName())), safeLine(agent.GetDescription()), ""}
	for _, field := range []struct{ name, value string }{
		{"mode", modeText(agent.GetMode())},
		{"tools", orElse(strings.Join(agent.GetTools(), ", "), "all")},
		{"spawns", orElse(strings.Join(agent.GetSpawns(), ", "), "none")},
		{"model", orElse(agent.GetModel(), "the default")},
		{"iterations", orElse(limitText(agent.GetMaxIterations()), "the default")},
		{"source", agent.GetSource()},
		{"version", agent.GetVersion()},
	} {
		lines = append(lines, l.dim.Render(fmt.Sprintf("%-11s", field.name))+safeLine(field.value))
	}
	return a.print(append(lines, "", strings.TrimSpace(safeText(agent.GetPrompt())))...)
}

func modeText(m pb.AgentMode) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "AGENT_MODE_"))
}

func limitText(n int32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func orElse(s, standard string) string {
	if s == "" {
		return standard
	}
	return s
}

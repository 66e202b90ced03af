package cli

import (
	"cmp"
	"errors"
	"io/fs"
	"os"

	"github.com/coppice-run/coppice/internal/assembly"
	"github.com/coppice-run/coppice/internal/mcp"
	"github.com/coppice-run/coppice/internal/model/price"
)

// files are the flags that locate agents, plugins, skills, models and prices.
type files struct {
	AgentsDir  []string `placeholder:"DIR" help:"Directories of agent definitions; later ones take precedence."`
	PluginsDir string   `placeholder:"DIR" help:"Directory of plugins, each with agents and skills."`
	SkillsDir  []string `placeholder:"DIR" help:"Directories of skills, in addition to those of the workspace."`
	Models     string   `placeholder:"FILE" help:"File that maps model names to models."`
	Prices     string   `placeholder:"FILE" help:"File of model prices, which override the built-in ones."`
}

// reachFlags say what tools may access outside of the workspace.
type reachFlags struct {
	FetchAllow  []string `placeholder:"HOST|CIDR,..." help:"What web_fetch may reach in addition to the internet: globs of host names, addresses and CIDR ranges."`
	BashNetwork bool     `help:"Allow commands to use the network."`
}

// mcpFlags configure MCP servers.
type mcpFlags struct {
	MCPConfig string `name:"mcp-config" placeholder:"FILE" help:"MCP servers whose tools agents may use: YAML or JSON with the key mcpServers."`
}

// servers reads the configuration file, if there is one.
func (f mcpFlags) servers(a *app) ([]mcp.Server, error) {
	if f.MCPConfig == "" {
		return nil, nil
	}
	servers, err := mcp.Load(f.MCPConfig, func(name string) (string, bool) {
		value := a.Getenv(name)
		return value, value != ""
	})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return servers, nil
}

// check refuses directories and files that do not exist, and an invalid file of prices.
func (f files) check() error {
	for _, named := range []struct {
		flag string
		dirs []string
	}{{"--agents-dir", f.AgentsDir}, {"--plugins-dir", []string{f.PluginsDir}}, {"--skills-dir", f.SkillsDir}} {
		for _, dir := range named.dirs {
			if err := isDirectory(named.flag, dir); err != nil {
				return err
			}
		}
	}
	if err := cmp.Or(isFile("--models", f.Models), isFile("--prices", f.Prices)); err != nil || f.Prices == "" {
		return err
	}
	if _, err := price.Load(f.Prices); err != nil {
		return usagef("%w", err)
	}
	return nil
}

// isFile refuses a file of a flag that does not exist; empty is ignored.
func isFile(flag, name string) error {
	if name == "" {
		return nil
	}
	switch _, err := os.Stat(name); {
	case errors.Is(err, fs.ErrNotExist):
		return usagef("%s %s: no such file", flag, name)
	case err != nil:
		return usagef("%s: %w", flag, err)
	}
	return nil
}

func (f files) assemblyFiles() assembly.Files {
	return assembly.Files{Agents: f.AgentsDir, Plugins: f.PluginsDir, Skills: f.SkillsDir, Models: f.Models, Prices: f.Prices}
}

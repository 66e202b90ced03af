package cli

import "github.com/coppice-run/coppice/internal/assembly"

// files are the flags that say where agents, plugins, skills and models are.
type files struct {
	AgentsDir  []string `placeholder:"DIR" help:"Directories of agents; the later goes before the earlier."`
	PluginsDir string   `placeholder:"DIR" help:"Directory of plugins, each with agents and skills."`
	SkillsDir  []string `placeholder:"DIR" help:"Directories of skills, beside those of the workspace."`
	Models     string   `placeholder:"FILE" help:"What the names of models stand for."`
	Prices     string   `placeholder:"FILE" help:"What models cost; it goes before what is built in."`
}

// reachFlags say what tools may reach outside of the workspace.
type reachFlags struct {
	FetchAllow  []string `placeholder:"HOST|CIDR,..." help:"What web_fetch may reach beside the internet: globs of host names, addresses and ranges of them."`
	BashNetwork bool     `help:"Let commands use the network."`
}

func (f files) given() bool {
	return len(f.AgentsDir)+len(f.SkillsDir) > 0 || f.PluginsDir+f.Models+f.Prices != ""
}

func (f files) assembly() assembly.Files {
	return assembly.Files{Agents: f.AgentsDir, Plugins: f.PluginsDir, Skills: f.SkillsDir, Models: f.Models, Prices: f.Prices}
}

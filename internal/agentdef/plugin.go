package agentdef

import "strings"

// Qualified returns the definition under its name in a plugin: <plugin>:<name>.
func (d *Definition) Qualified(plugin string) *Definition {
	named := *d
	named.Name = plugin + ":" + d.Name
	named.Version = named.digest()
	return &named
}

// OfPlugin reports whether the name is qualified with a plugin.
func (d *Definition) OfPlugin() bool { return strings.Contains(d.Name, ":") }

// IsName reports whether a name is valid for an agent.
func IsName(name string) bool { return checkName(name) == "" }

// PluginName reports whether a name is valid for a plugin.
func PluginName(name string) bool { return IsName(name) && !strings.Contains(name, ":") }

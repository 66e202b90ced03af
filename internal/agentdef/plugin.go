package agentdef

import "strings"

// Qualified gives the definition under the name that it has in a plugin: that of
// the plugin, a colon, its own.
func (d *Definition) Qualified(plugin string) *Definition {
	named := *d
	named.Name = plugin + ":" + d.Name
	named.Version = named.digest()
	return &named
}

// OfPlugin reports whether the definition's name is that of a plugin's.
func (d *Definition) OfPlugin() bool { return strings.Contains(d.Name, ":") }

// IsName reports whether an agent may have a name.
func IsName(name string) bool { return checkName(name) == "" }

// PluginName reports whether a plugin may have a name.
func PluginName(name string) bool { return IsName(name) && !strings.Contains(name, ":") }

package policy

import (
	"errors"
	"fmt"
	"strings"
)

// MCPPrefix begins the names of tools of MCP servers, which nobody knows before a
// worker has asked the server: mcp__server__tool.
const MCPPrefix = "mcp__"

// A list of tools has entries: names of tools, and, for those of MCP servers, globs
// such as mcp__server__get_*. mcp__server stands for all tools of the server.

// CheckEntry says what is wrong with an entry of a list of tools.
func CheckEntry(entry string) error {
	const most = 128
	allowed, said := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", "_ and -"
	if strings.HasPrefix(entry, MCPPrefix) {
		allowed, said = allowed+"*", "_, - and *"
	}
	if entry == "" || len(entry) > most || strings.Trim(entry, allowed) != "" {
		return fmt.Errorf("expected the name of a tool: 1 to %d letters, digits, %s", most, said)
	}
	if strings.Contains(entry, "***") {
		return errors.New("expected a glob with at most two * together")
	}
	return nil
}

// Names reports whether an entry of a list of tools names a tool.
func EntryMatches(entry, tool string) bool {
	if !strings.HasPrefix(entry, MCPPrefix) {
		return entry == tool
	}
	g, err := parseGlob(expandEntry(entry))
	return err == nil && g.match(tool, false)
}

// Meet reports whether there may be a tool that both entries name.
func EntriesOverlap(a, b string) bool {
	a, b = expandEntry(a), expandEntry(b)
	// From the ends on: meets[j] says whether a[i:] and b[j:] have a text in common,
	// below the same for a[i+1:].
	var below []bool
	for i := len(a); i >= 0; i-- {
		meets := make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			switch {
			case i == len(a) && j == len(b):
				meets[j] = true
			case i < len(a) && a[i] == '*':
				meets[j] = below[j] || j < len(b) && meets[j+1]
			case j < len(b) && b[j] == '*':
				meets[j] = meets[j+1] || i < len(a) && below[j]
			default:
				meets[j] = i < len(a) && j < len(b) && a[i] == b[j] && below[j+1]
			}
		}
		below = meets
	}
	return below[0]
}

// allOf gives mcp__server as mcp__server__*, and anything else as it is.
func expandEntry(entry string) string {
	server, ok := strings.CutPrefix(entry, MCPPrefix)
	if ok && server != "" && !strings.Contains(server, "__") && !strings.Contains(server, "*") {
		return entry + "__*"
	}
	return entry
}

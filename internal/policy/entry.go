package policy

import (
	"errors"
	"fmt"
	"strings"
)

// MCPPrefix begins the names of tools of MCP servers: mcp__server__tool. These tools are unknown
// until a worker has asked the server.
const MCPPrefix = "mcp__"

// CheckEntry returns an error if an entry of a list of tools is invalid.
//
// The entries of a list of tools are tool names and, for tools of MCP servers, globs such as
// mcp__server__get_*. mcp__server stands for all tools of the server.
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
		return errors.New("expected a glob with at most two * in a row")
	}
	return nil
}

// EntryMatches reports whether an entry of a list of tools matches a tool.
func EntryMatches(entry, tool string) bool {
	if !strings.HasPrefix(entry, MCPPrefix) {
		return entry == tool
	}
	g, err := parseGlob(expandEntry(entry))
	return err == nil && g.match(tool, false)
}

// EntriesOverlap reports whether a tool can exist that both entries match.
func EntriesOverlap(a, b string) bool {
	a, b = expandEntry(a), expandEntry(b)
	// Dynamic programming from the ends: meets[j] says whether a[i:] and b[j:] match a common text,
	// and below is the same for a[i+1:].
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

// expandEntry expands mcp__server to mcp__server__*, and returns other entries unchanged.
func expandEntry(entry string) string {
	server, ok := strings.CutPrefix(entry, MCPPrefix)
	if ok && server != "" && !strings.Contains(server, "__") && !strings.Contains(server, "*") {
		return entry + "__*"
	}
	return entry
}

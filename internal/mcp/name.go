package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/coppice-run/coppice/internal/policy"
)

const (
	// maxToolName is the length that providers accept.
	maxToolName = 64
	// digest is the number of hash characters that distinguish equal names.
	digest = 8
)

// toolNames returns the names under which models know the tools of a server, in the order of
// own. Characters that providers do not accept become _. A name that is too long, or equal to
// that of another tool, ends with a hash. A tool whose name would still not be unique gets "".
func toolNames(server string, own []string) []string {
	prefix := policy.MCPPrefix + server + "__"
	plain, claims := make([]string, len(own)), map[string]int{}
	for i, name := range own {
		plain[i] = prefix + strings.Map(allowedRune, name)
		claims[plain[i]]++
	}
	names, taken := make([]string, len(own)), map[string]bool{}
	// A tool whose name needs no change keeps it, whatever the others are called.
	for i, name := range own {
		if plain[i] == prefix+name && name != "" && len(plain[i]) <= maxToolName && !taken[plain[i]] {
			names[i], taken[plain[i]] = plain[i], true
		}
	}
	for i, name := range own {
		if names[i] != "" || name == "" || taken[plain[i]] && plain[i] == prefix+name {
			continue
		}
		candidate := plain[i]
		if claims[candidate] > 1 || len(candidate) > maxToolName {
			sum := sha256.Sum256([]byte(name))
			candidate = candidate[:min(len(candidate), maxToolName-digest-1)] + "_" + hex.EncodeToString(sum[:])[:digest]
		}
		if !taken[candidate] {
			names[i], taken[candidate] = candidate, true
		}
	}
	return names
}

// allowedRune returns a character of a name, or its replacement.
func allowedRune(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

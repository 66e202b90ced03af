package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/coppice-run/coppice/internal/policy"
)

const (
	// maxToolName is what providers take.
	maxToolName = 64
	// digest is how many characters tell tools apart whose names would be the same.
	digest = 8
)

// toolNames gives the names under which models know the tools of a server, by the
// server's own names for them, in that order. What providers don't take is _; a name
// that is too long, or that another tool has as well, ends in a digest. A tool that
// even so would have another's name has none: "".
func toolNames(server string, own []string) []string {
	prefix := policy.MCPPrefix + server + "__"
	plain, claims := make([]string, len(own)), map[string]int{}
	for i, name := range own {
		plain[i] = prefix + strings.Map(allowedRune, name)
		claims[plain[i]]++
	}
	names, taken := make([]string, len(own)), map[string]bool{}
	// A tool that has its name as it is keeps it, whatever the others are called.
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

// allowedRune gives a character of a name, or what stands for it.
func allowedRune(r rune) rune {
	if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

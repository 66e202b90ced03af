package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// inheritedVars are the worker's variables that commands inherit. All others stay with the
// worker: API keys, passwords, addresses.
var inheritedVars = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// email is the git identity if neither the repository nor the environment sets one.
const email = "coppice@localhost"

// Environ returns the variables of an environment that every command may have, and the named
// ones.
func Environ(environ, named []string) []string {
	taken := []string{}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(inheritedVars, name) || strings.HasPrefix(name, "LC_") || slices.Contains(named, name) {
			taken = append(taken, entry)
		}
	}
	return taken
}

// mergeEnviron joins environments. For a repeated name the last entry counts.
func mergeEnviron(environs ...[]string) []string {
	var all []string
	at := map[string]int{}
	for _, entry := range slices.Concat(environs...) {
		name, _, _ := strings.Cut(entry, "=")
		if i, ok := at[name]; ok {
			all[i] = entry
			continue
		}
		at[name] = len(all)
		all = append(all, entry)
	}
	return all
}

// withSafeDirectory adds git settings to an environment that mark a directory, and everything
// below it, as safe whoever owns it. A volume often belongs to another user, and a command may
// change its files anyway. Existing git settings stay. Only git 2.46 and later apply it to
// subdirectories.
func withSafeDirectory(dir string, environ []string) []string {
	const count = "GIT_CONFIG_COUNT"
	has := 0
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); name == count && value != "" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return environ // git reports this itself
			}
			has = n
		}
	}
	trusted := []string{dir, path.Join(dir, "*")}
	more := []string{fmt.Sprintf("%s=%d", count, has+len(trusted))}
	for i, value := range trusted {
		more = append(more, fmt.Sprintf("GIT_CONFIG_KEY_%d=safe.directory", has+i), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", has+i, value))
	}
	return mergeEnviron(environ, more)
}

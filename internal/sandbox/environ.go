package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// inheritedVars are the variables of the worker that say nothing about it but where it
// runs. All others stay with it: keys of providers, passwords, addresses.
var inheritedVars = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// email is whose a commit of git is where neither the repository nor the environment says it.
const email = "coppice@localhost"

// Environ takes of an environment what any command may have, and the variables that
// are named.
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

// mergeEnviron puts environments together; of entries with the same name the last counts.
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

// withSafeDirectory adds to an environment that git takes a directory for safe, and what is below it,
// whoever they belong to: a volume is often another user's, and a command may change what is there
// anyway. Settings of git that the environment has stay. Below the directory only git 2.46
// and later heed it.
func withSafeDirectory(dir string, environ []string) []string {
	const count = "GIT_CONFIG_COUNT"
	has := 0
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); name == count && value != "" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return environ // git says so itself
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

package sandbox

import (
	"slices"
	"strings"
)

// passed are the variables of the worker that say nothing about it but where it
// runs. All others stay with it: keys of providers, passwords, addresses.
var passed = []string{"PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME"}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environ takes of an environment what any command may have, and the variables that
// are named.
func Environ(environ, named []string) []string {
	taken := []string{}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if slices.Contains(passed, name) || strings.HasPrefix(name, "LC_") || slices.Contains(named, name) {
			taken = append(taken, entry)
		}
	}
	return taken
}

// merged puts environments together; of entries with the same name the last counts.
func merged(environs ...[]string) []string {
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

package outbound

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"
)

// Destinations are the addresses outside of the internet that an operator allows. The zero
// value allows none.
type Destinations struct {
	hosts    []string // globs, in lower case
	prefixes []netip.Prefix
}

// ParseDestinations parses a list of globs for host names (*.corp.example), addresses
// (10.1.2.3) and address ranges (10.0.0.0/8). A glob matches only names, and allows all
// addresses that they resolve to.
func ParseDestinations(texts []string) (Destinations, error) {
	var d Destinations
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			d.prefixes = append(d.prefixes, prefix.Masked())
			continue
		}
		if addr, err := netip.ParseAddr(text); err == nil {
			addr = normalise(addr)
			d.prefixes = append(d.prefixes, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		if _, err := path.Match(text, ""); err != nil || text == "" || strings.ContainsAny(text, "/:@ ") {
			return Destinations{}, fmt.Errorf("%q is neither a glob of host names, such as *.corp.example, nor a range of addresses, such as 10.0.0.0/8", text)
		}
		d.hosts = append(d.hosts, strings.ToLower(strings.TrimSuffix(text, ".")))
	}
	return d, nil
}

// Exempt implements the function of [Dialer].
func (d Destinations) Exempt(host string, addr netip.Addr) bool {
	if slices.ContainsFunc(d.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return slices.ContainsFunc(d.hosts, func(glob string) bool {
		ok, err := path.Match(glob, host)
		return ok && err == nil
	})
}

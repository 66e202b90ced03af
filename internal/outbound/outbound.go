// Package outbound connects to URLs from untrusted sources, and blocks what only this machine
// and its network may reach. It checks the address just before it connects, after name
// resolution. So the check cannot be bypassed by a name that resolves to an internal address,
// by another spelling of an address, or by a name that resolves differently the second time.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
)

// ErrForbidden reports that a destination is not allowed. Retrying does not help.
var ErrForbidden = errors.New("forbidden")

// Dialer connects only to public internet addresses.
type Dialer struct {
	// Resolver resolves names. The default is the system's resolver.
	Resolver *net.Resolver
	// Exempt allows a destination that is not public. host is the requested host, addr what it
	// was resolved to. Optional.
	Exempt func(host string, addr netip.Addr) bool
}

// DialContext connects to host:port. The error is [ErrForbidden] if the host resolved to an
// address that is not allowed.
func (d Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	dialer := net.Dialer{
		Resolver: d.Resolver,
		ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			return d.checkAddress(host, resolved)
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// Transport returns an HTTP transport that uses the dialer. It uses no proxy, because a proxy
// would resolve names without this check. It does not keep connections open.
func (d Dialer) Transport() *http.Transport {
	return &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}
}

// checkAddress returns an error if an IP:port is not allowed.
func (d Dialer) checkAddress(host, resolved string) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	addr := normalise(at.Addr())
	if isPublic(addr) || d.Exempt != nil && d.Exempt(host, addr) {
		return nil
	}
	return fmt.Errorf("%w: the address %s of %s is not one of the internet's, and is not allowed by name", ErrForbidden, addr, host)
}

// nat64 is the prefix under which IPv6-only networks reach IPv4.
func nat64() netip.Prefix { return netip.MustParsePrefix("64:ff9b::/96") }

// normalise returns an address without its zone, and the IPv4 address that an IPv6 address
// embeds.
func normalise(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if nat64().Contains(addr) {
		bytes := addr.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return addr
}

// reserved returns the ranges that netip considers global, but that are not public or embed an
// IPv4 address.
func reserved() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),         // "this network"
		netip.MustParsePrefix("100.64.0.0/10"),     // carrier-grade NAT
		netip.MustParsePrefix("168.63.129.16/32"),  // the platform of Azure, from its machines
		netip.MustParsePrefix("192.0.0.0/24"),      // protocol assignments
		netip.MustParsePrefix("192.0.2.0/24"),      // documentation
		netip.MustParsePrefix("192.31.196.0/24"),   // AS112
		netip.MustParsePrefix("192.52.193.0/24"),   // multicast over unicast (AMT)
		netip.MustParsePrefix("192.88.99.0/24"),    // 6to4 relays
		netip.MustParsePrefix("192.175.48.0/24"),   // AS112
		netip.MustParsePrefix("198.18.0.0/15"),     // benchmarks
		netip.MustParsePrefix("198.51.100.0/24"),   // documentation
		netip.MustParsePrefix("203.0.113.0/24"),    // documentation
		netip.MustParsePrefix("240.0.0.0/4"),       // reserved for future use
		netip.MustParsePrefix("2001::/23"),         // protocol assignments, including Teredo
		netip.MustParsePrefix("2001:db8::/32"),     // documentation
		netip.MustParsePrefix("2002::/16"),         // 6to4
		netip.MustParsePrefix("2620:4f:8000::/48"), // AS112
		netip.MustParsePrefix("3fff::/20"),         // documentation
	}
}

// allocated is the part of IPv6 that is allocated for the internet.
func allocated() netip.Prefix { return netip.MustParsePrefix("2000::/3") }

// isPublic reports whether a normalised address is public.
func isPublic(addr netip.Addr) bool {
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Is6() && !allocated().Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(reserved(), func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Package outbound reaches out to URLs that a stranger may have written, and keeps
// them from what only this machine and its network should reach. An address is
// judged when it is about to be dialled, after its name was resolved: so neither a
// name that leads inside, nor another spelling of an address, nor a name that
// resolves anew to something else gets around it.
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

// ErrForbidden says that a destination may not be reached: trying again would not
// help.
var ErrForbidden = errors.New("forbidden")

// Dialer connects to addresses of the internet, and to no others.
type Dialer struct {
	// Resolver finds the addresses of names; nil: the system's.
	Resolver *net.Resolver
	// Exempt lets a destination be reached that is not on the internet: host is the
	// one that was asked for, addr what it was resolved to. nil: none is.
	Exempt func(host string, addr netip.Addr) bool
}

// DialContext connects to host:port. An error that is [ErrForbidden] says that the
// host led to an address that may not be reached.
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

// Transport gives a transport over the dialer. It has no proxy, which would resolve
// names where nobody judges the address, and keeps no connection.
func (d Dialer) Transport() *http.Transport {
	return &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}
}

// checkAddress refuses an IP:port that may not be reached.
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

// nat64 is the prefix under which a network without IPv4 reaches it.
func nat64() netip.Prefix { return netip.MustParsePrefix("64:ff9b::/96") }

// normalise gives an address without zone, and the IPv4 address that is meant where an
// IPv6 address only stands for one.
func normalise(addr netip.Addr) netip.Addr {
	addr = addr.WithZone("").Unmap()
	if nat64().Contains(addr) {
		bytes := addr.As16()
		return netip.AddrFrom4([4]byte(bytes[12:]))
	}
	return addr
}

// reserved are ranges that netip takes for global and that are nobody's on the
// internet, or that carry an IPv4 address to a place of its own.
func reserved() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),       // this network
		netip.MustParsePrefix("100.64.0.0/10"),   // between a carrier and its customers
		netip.MustParsePrefix("192.0.0.0/24"),    // of protocols
		netip.MustParsePrefix("192.0.2.0/24"),    // for documentation
		netip.MustParsePrefix("192.88.99.0/24"),  // relays of 6to4
		netip.MustParsePrefix("198.18.0.0/15"),   // for measurements
		netip.MustParsePrefix("198.51.100.0/24"), // for documentation
		netip.MustParsePrefix("203.0.113.0/24"),  // for documentation
		netip.MustParsePrefix("240.0.0.0/4"),     // for a future that did not come
		netip.MustParsePrefix("2001::/23"),       // of protocols, Teredo among them
		netip.MustParsePrefix("2001:db8::/32"),   // for documentation
		netip.MustParsePrefix("2002::/16"),       // 6to4
		netip.MustParsePrefix("3fff::/20"),       // for documentation
	}
}

// allocated is all of IPv6 that has been given out for the internet.
func allocated() netip.Prefix { return netip.MustParsePrefix("2000::/3") }

// isPublic reports whether a plain address is one of the internet's.
func isPublic(addr netip.Addr) bool {
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Is6() && !allocated().Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(reserved(), func(p netip.Prefix) bool { return p.Contains(addr) })
}

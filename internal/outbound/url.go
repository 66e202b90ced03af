package outbound

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// ParseURL parses an absolute http or https URL and normalises it, so that a decision about its
// text is a decision about what is reached:
//
//   - The host is in lower case and in ASCII, without a trailing dot.
//   - A default port is removed.
//   - The path has no dot segments and no unnecessary escapes.
//   - The query stays as written, except that characters which are not allowed in it are
//     escaped.
//   - The fragment is removed.
//
// A URL with a user or password is rejected, because it can look like a URL of another host.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("no URL: %w", errors.Unwrap(err))
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("no URL that begins with http:// or https://")
	case u.User != nil:
		return nil, errors.New("a URL with a user before its host is not fetched")
	}
	host, err := normaliseHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	if u.Host, err = withPort(host, u.Port(), u.Scheme); err != nil {
		return nil, err
	}
	u.Fragment, u.RawFragment = "", ""
	if u.Path == "" {
		u.Path = "/"
	}
	escaped := normaliseEscapes(u.EscapedPath())
	if u.Path, err = url.PathUnescape(escaped); err != nil {
		return nil, fmt.Errorf("no URL: %w", err)
	}
	u.RawPath = escaped
	u.RawQuery = escapeQuery(u.RawQuery)
	// ResolveReference removes dot segments.
	return (&url.URL{}).ResolveReference(u), nil
}

// normaliseHost returns the normal form of a host. A host that ends in a number and is not an
// address is rejected, because some resolvers accept 2130706433 and 0x7f.1 as 127.0.0.1.
func normaliseHost(host string) (string, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String(), nil
	}
	ascii := strings.ToLower(host)
	if strings.Trim(ascii, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
		var err error
		if ascii, err = idna.Lookup.ToASCII(host); err != nil {
			return "", fmt.Errorf("no host: %w", err)
		}
	}
	ascii = strings.TrimSuffix(ascii, ".")
	if addr, err := netip.ParseAddr(ascii); err == nil {
		return addr.String(), nil
	}
	last := ascii[strings.LastIndexByte(ascii, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64)
	switch {
	case last == "":
		return "", errors.New("the URL names no host")
	case err == nil || errors.Is(err, strconv.ErrRange) || strings.Trim(last, "0123456789") == "" || last == "0x":
		return "", fmt.Errorf("the host %.100q ends in a number and is no address as 192.0.2.1 is one", host)
	}
	return ascii, nil
}

// withPort returns host:port, or only the host if the port is the default of the scheme.
func withPort(host, port, scheme string) (string, error) {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" {
		return host, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0:
		return "", fmt.Errorf("the port %.20q is not from 1 to 65535", port)
	case scheme == "http" && n == 80, scheme == "https" && n == 443:
		return host, nil
	}
	return host + ":" + strconv.FormatUint(n, 10), nil
}

// normaliseEscapes removes unnecessary escapes and writes the others in upper case.
func normaliseEscapes(escaped string) string {
	var out strings.Builder
	for i := 0; i < len(escaped); i++ {
		if escaped[i] == '%' && i+2 < len(escaped) {
			if b, err := strconv.ParseUint(escaped[i+1:i+3], 16, 8); err == nil && isUnreserved(byte(b)) {
				out.WriteByte(byte(b))
			} else {
				out.WriteString(strings.ToUpper(escaped[i : i+3]))
			}
			i += 2
			continue
		}
		out.WriteByte(escaped[i])
	}
	return out.String()
}

// escapeQuery escapes what browsers escape in a query and servers reject: spaces, quotation
// marks, angle brackets and non-ASCII characters.
func escapeQuery(query string) string {
	var out strings.Builder
	for i := range len(query) {
		if b := query[i]; b <= ' ' || b >= 0x7f || strings.IndexByte(`"<>`, b) >= 0 {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}

func isUnreserved(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("-._~", b) >= 0
}

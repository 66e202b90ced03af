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

// ParseURL reads an absolute http or https URL and gives it in its one plain form,
// so that what is decided on its text is decided on what is reached: the host in
// lower case, without a dot at its end, and in ASCII; no port that goes without
// saying; a path without dot segments and without escapes that it does not need; a query
// as it is written, with escapes for what no query may have; no fragment. One with a user
// or password is refused, since it looks like another host's.
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
	// Resolving takes dot segments out.
	return (&url.URL{}).ResolveReference(u), nil
}

// normaliseHost gives the one form of a host. What ends in a number and is no address
// is refused: some resolvers take 2130706433 and 0x7f.1 for 127.0.0.1.
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

// withPort gives host:port, or the host alone if the port is the scheme's own.
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

// normaliseEscapes takes away the escapes of characters that mean the same without, and
// writes all others in one way.
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

// escapeQuery escapes what browsers escape in a query and servers refuse: blanks,
// quotation marks, angle brackets, and all that is not ASCII.
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

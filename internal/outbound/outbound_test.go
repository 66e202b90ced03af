package outbound

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// names resolves every name to what answer says for it.
func names(t *testing.T, answer func(name string) []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			reply, err := reply(buf[:n], answer)
			if err != nil {
				t.Error(err)
				continue
			}
			if _, err := conn.WriteTo(reply, from); err != nil {
				t.Error(err)
			}
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func reply(query []byte, answer func(name string) []netip.Addr) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, fmt.Errorf("%d questions: %w", len(m.Questions), err)
	}
	q := m.Questions[0]
	m.Response, m.Authoritative, m.Additionals = true, true, nil
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
	if q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA {
		return m.Pack()
	}
	for _, addr := range answer(strings.TrimSuffix(q.Name.String(), ".")) {
		switch {
		case q.Type == dnsmessage.TypeA && addr.Is4():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}})
		case q.Type == dnsmessage.TypeAAAA && addr.Is6():
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return m.Pack()
}

// inside are addresses that nobody may reach, and some of the internet's neighbours.
func inside() []string {
	return []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.5.4", "172.31.255.255", "192.168.1.1",
		"169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.1", "192.0.2.1", "198.51.100.7", "203.0.113.9",
		"198.18.0.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "192.88.99.1",
		"168.63.129.16", "192.31.196.1", "192.52.193.1", "192.175.48.1",
	}
}

// spellings are ways to write an IPv4 address that something may understand.
func spellings(t *testing.T, text string) []string {
	t.Helper()
	addr, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	b := addr.As4()
	n := binary.BigEndian.Uint32(b[:])
	hex := fmt.Sprintf("%02x%02x:%02x%02x", b[0], b[1], b[2], b[3])
	return []string{
		text, text + ".",
		fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff), fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", b[0], b[1], b[2], b[3]), fmt.Sprintf("0%o.0%o.0%o.0%o", b[0], b[1], b[2], b[3]),
		fmt.Sprintf("0x%X.%d", b[0], n&0xffffff), fmt.Sprintf("%03d.%03d.%03d.%03d", b[0], b[1], b[2], b[3]),
		"[::ffff:" + text + "]", "[::FFFF:" + hex + "]", "[::" + text + "]", "[::ffff:0:" + hex + "]",
		"[64:ff9b::" + text + "]", "[64:ff9b:1::" + hex + "]", "[2002:" + hex + "::1]", "[2001:0:" + hex + "::]",
		"[::ffff:" + text + "%25eth0]",
		strings.NewReplacer("0", "０", "1", "①", "2", "２").Replace(text), strings.ReplaceAll(text, ".", "。"),
		"public.example@" + text, "public.example%40" + text, text + "%2f@public.example",
		text + ".resolves.example",
	}
}

func targets(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, addr := range inside() {
		for _, host := range spellings(t, addr) {
			all = append(all, "http://"+host, "https://"+host)
		}
	}
	for _, host := range []string{
		"localhost", "LOCALHOST.", "localhost.localdomain", "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[fe80::1]", "[fe80::1%25lo]", "[fe80::1%25]",
		"[fc00::1]", "[fd12:3456::1]", "[fec0::1]", "[ff02::1]", "[ff02::1%25eth0]", "[2001:db8::1]", "[3fff::1]", "[100::1]", "[5f00::1]",
		"[2001:0:4136:e378:8000:63bf:3fff:fdd2]", "[2002:7f00:1::]", "[2620:4f:8000::1]", "[4000::1]", "xn--lcalhost-n0a.example", "lοcalhost.example", "", ".", "..",
	} {
		all = append(all, "http://"+host, "http://"+host+"/a?b#c")
	}
	return all
}

// TestNothingInsideIsReached: whatever the spelling, and even by a resolver that
// takes any of them for this machine, which serves on the port in question.
func TestNothingInsideIsReached(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	resolver := names(t, func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} })
	dialer := Dialer{Resolver: resolver}
	client := http.Client{Transport: dialer.Transport()}
	tried, got := 0, 0
	for _, target := range targets(t) {
		for _, text := range []string{target, withServerPort(target, port)} {
			tried++
			u, err := ParseURL(text)
			if err != nil {
				// Refused before anything is looked up. Whoever does not parse first is
				// held back by the dialer.
				if u, err = url.Parse(text); err != nil {
					continue
				}
			}
			resp, err := client.Get(u.String())
			if err == nil {
				got++
				t.Errorf("%s was answered", text)
				resp.Body.Close()
			} else if u.Hostname() != "" && !errors.Is(err, ErrForbidden) && !noAddress(err) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if reached.Load() != 0 || tried < 300 {
		t.Errorf("%d spellings, %d requests arrived", tried, reached.Load())
	}
	t.Logf("%d spellings, %d succeeded", tried, got)
}

// noAddress reports whether a host was given up before anything was dialled.
func noAddress(err error) bool {
	_, lookup := errors.AsType[*net.DNSError](err)
	return lookup || strings.Contains(err.Error(), "no Host in request URL") || strings.Contains(err.Error(), "invalid URL port") ||
		strings.Contains(err.Error(), "idna: ") || strings.Contains(err.Error(), "no suitable address")
}

// withServerPort points a URL at a port.
func withServerPort(target, port string) string {
	scheme, rest, _ := strings.Cut(target, "://")
	host, tail := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, tail = rest[:i], rest[i:]
	}
	return scheme + "://" + host + ":" + port + tail
}

// TestRebinding: a name that was judged once is judged again with what it is resolved
// to next.
func TestRebinding(t *testing.T) {
	t.Parallel()
	inner := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the inner server was reached")
	}))
	inner.Start()
	t.Cleanup(inner.Close)
	_, port, err := net.SplitHostPort(inner.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The outer server stands in for one on the internet; the inner one has its port.
	outer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/again" {
			http.Redirect(w, r, "/inner", http.StatusFound)
		}
	}))
	outer.Listener.Close()
	if outer.Listener, err = net.Listen("tcp", "127.0.0.2:"+port); err != nil {
		t.Fatal(err)
	}
	outer.Start()
	t.Cleanup(outer.Close)
	allowed, err := ParseDestinations([]string{"127.0.0.2/32"})
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	dialer := Dialer{Exempt: allowed.Exempt, Resolver: names(t, func(name string) []netip.Addr {
		// The Go resolver asks twice for one lookup: for IPv4 and for IPv6.
		if strings.HasPrefix(name, "stays") || asked.Add(1) <= 2 {
			return []netip.Addr{netip.MustParseAddr("127.0.0.2")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})}
	client := http.Client{Transport: dialer.Transport()}
	for path, want := range map[string]error{"http://stays.example:" + port + "/again": nil, "http://turns.example:" + port + "/again": ErrForbidden} {
		resp, err := client.Get(path)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err == nil {
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	if asked.Load() != 4 {
		t.Errorf("the name was asked for %d times", asked.Load())
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1.1.1.1": true, "8.8.8.8": true, "172.32.0.1": true, "100.128.0.1": true, "198.20.0.1": true, "223.255.255.255": true, "168.63.129.17": true,
		"2606:4700::1111": true, "2a00:1450::1": true, "::ffff:8.8.8.8": true, "64:ff9b::8.8.8.8": true, "2001:4860:4860::8888": true,
		"64:ff9b::10.0.0.1": false, "64:ff9b:1::808:808": false, "2002:808:808::": false, "::8.8.8.8": false, "fe80::1%eth0": false,
	} {
		if got := isPublic(normalise(netip.MustParseAddr(text))); got != want {
			t.Errorf("%s is public: %t", text, got)
		}
	}
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	d, err := ParseDestinations([]string{"10.1.0.0/16", "fd00::1", "*.Corp.example", "wiki", "192.168.7.7"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, addr string
		want       bool
	}{
		{"10.1.2.3", "10.1.2.3", true},
		{"any.example", "10.1.2.3", true},
		{"10.2.2.3", "10.2.2.3", false},
		{"x", "fd00::1", true},
		{"x", "fd00::2", false},
		{"x", "192.168.7.7", true},
		{"a.corp.example", "10.9.9.9", true},
		{"A.CORP.example.", "10.9.9.9", true},
		{"corp.example", "10.9.9.9", false},
		{"wiki", "127.0.0.1", true},
		{"wiki.evil.example", "127.0.0.1", false},
	} {
		if got := d.Exempt(c.host, netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s at %s: %t", c.host, c.addr, got)
		}
	}
	every, err := ParseDestinations([]string{"*"})
	if err != nil || every.Exempt("127.0.0.1", netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("a glob names an address, %v", err)
	}
	for _, bad := range []string{"", "[", "http://x", "a:80", "10.0.0.0/33", "u@x", "a b"} {
		if _, err := ParseDestinations([]string{bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"https://Go.DEV":                  "https://go.dev/",
		"http://go.dev.:080/a/./b/../c#d": "http://go.dev/a/c",
		"https://go.dev:8443/?q=a%20b":    "https://go.dev:8443/?q=a%20b",
		"https://go.dev/?q=a b  c+d":      "https://go.dev/?q=a%20b%20%20c+d",
		"https://go.dev/?q=ü\"<a>#b c":    "https://go.dev/?q=%C3%BC%22%3Ca%3E",
		"https://go.dev/?a%2fb[]={%zz}|'": "https://go.dev/?a%2fb[]={%zz}|'",
		"https://go.dev/a b?":             "https://go.dev/a%20b?",
		"https://go.dev/%7e%2f%41/%zz":    "error",
		"https://go.dev/%7ex%2fy":         "https://go.dev/~x%2Fy",
		"https://bücher.example/ü":        "https://xn--bcher-kva.example/%C3%BC",
		"http://[2606:4700:0::1111]:443/": "http://[2606:4700::1111]:443/",
		"http://[::ffff:8.8.8.8]/":        "http://8.8.8.8/",
		"http://１.1.1.1/":                 "http://1.1.1.1/",
		"ftp://go.dev/":                   "error", "//go.dev/": "error", "go.dev": "error", "http:///x": "error", "http://.": "error",
		"http://u@go.dev/": "error", "http://u:p@go.dev/": "error", "http://go.dev:0/": "error", "http://go.dev:70000/": "error",
		"http://1/": "error", "http://0x7f.1/": "error", "http://127.1/": "error", "http://a.0x/": "error", "http://99999999999999999999/": "error",
		"http://a b/": "error", "http://go.dev:x/": "error", "file:///etc/passwd": "error", "gopher://x/": "error",
	} {
		got, err := ParseURL(in)
		if (err != nil) != (want == "error") || err == nil && got.String() != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

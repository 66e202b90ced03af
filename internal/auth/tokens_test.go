package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"google.golang.org/grpc/metadata"

	"github.com/coppice-run/coppice/internal/auth/authtest"
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func listOf(t *testing.T, entries ...Entry) []byte {
	t.Helper()
	data, err := yaml.Marshal(map[string][]Entry{"tokens": entries})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func made(t *testing.T, who Identity, expires time.Time) (string, Entry) {
	t.Helper()
	token, entry, err := NewToken(who, expires)
	if err != nil {
		t.Fatal(err)
	}
	return token, entry
}

func TestTokens(t *testing.T) {
	t.Parallel()
	c := &clock{at: time.Now()}
	acme, worker := Identity{"ci", "acme", RoleClient}, Identity{"w", "", RoleWorker}
	first, firstEntry := made(t, acme, c.at.Add(time.Hour))
	second, secondEntry := made(t, worker, time.Time{})
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, path, listOf(t, firstEntry, secondEntry))
	if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), first) {
		t.Errorf("the file holds a token: %s, %v", data, err)
	}
	tokens, err := OpenTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tokens.now, tokens.file.now = c.now, c.now
	tokens.file.checkedAt = c.at
	check := func(when, token string, want Identity) {
		t.Helper()
		if who, ok := tokens.Identify(token); who != want || ok != (want != Identity{}) {
			t.Errorf("%s: %q is %v, %v", when, token, who, ok)
		}
	}
	check("at first", first, acme)
	check("at first", second, worker)
	for _, wrong := range []string{"", first[1:], first + "x", strings.ToUpper(first), firstEntry.SHA256} {
		check("at first", wrong, Identity{})
	}
	issued, err := tokens.Issue(Identity{Tenant: "t", Role: RoleAdmin})
	if err != nil {
		t.Fatal(err)
	}
	check("issued", issued, Identity{Tenant: "t", Role: RoleAdmin})

	write(t, path, listOf(t, firstEntry))
	check("not looked yet", second, worker)
	c.pass(checkInterval)
	check("taken away", second, Identity{})
	check("kept", first, acme)
	check("issued", issued, Identity{Tenant: "t", Role: RoleAdmin})

	write(t, path, []byte("tokens: [{"))
	c.pass(checkInterval)
	check("half a file", first, acme)
	write(t, path, nil)
	c.pass(checkInterval)
	check("an empty file", first, acme)
	write(t, path, []byte("tokens:\n"))
	c.pass(checkInterval)
	check("a file that begins", first, acme)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.pass(checkInterval)
	check("no file", first, acme)
	write(t, path, listOf(t, firstEntry, secondEntry))
	c.pass(checkInterval)
	check("back", second, worker)
	c.pass(time.Hour)
	check("expired", first, Identity{})
	check("for ever", second, worker)
}

// TestFindingATokenCostsNoMemory: each message of a stream has one looked up, among all
// that there are.
func TestFindingATokenCostsNoMemory(t *testing.T) { //nolint:paralleltest // it counts allocations
	c := &clock{at: time.Now()}
	acme := Identity{"ci", "acme", RoleClient}
	first, entry := made(t, acme, c.at.Add(time.Hour))
	entries := []Entry{entry}
	for range 1000 {
		_, entry := made(t, acme, time.Time{})
		entries = append(entries, entry)
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, path, listOf(t, entries...))
	tokens, err := OpenTokens(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	tokens.now, tokens.file.now = c.now, c.now
	tokens.file.checkedAt = c.at
	issued, err := tokens.Issue(acme)
	if err != nil {
		t.Fatal(err)
	}
	for what, token := range map[string]string{"of the file": first, "that was issued": issued, "that is none": first + "x"} {
		if n := testing.AllocsPerRun(100, func() { tokens.Identify(token) }); n > 0 {
			t.Errorf("finding a token %s allocates %g times", what, n)
		}
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	t.Parallel()
	_, entry := made(t, Identity{"ci", "acme", RoleClient}, time.Time{})
	with := func(change func(*Entry)) []byte {
		e := entry
		change(&e)
		return listOf(t, e)
	}
	for _, c := range []struct {
		what, says string
		data       []byte
	}{
		{"no YAML", "", []byte("tokens: [")},
		{"an empty file", "no tokens", nil},
		{"a comment alone", "no tokens", []byte("# to be filled\n")},
		{"no list", "no tokens", []byte("tokens:\n")},
		{"an empty list", "no tokens", []byte("tokens: []\n")},
		{"an unknown key", "unknown field", []byte("tokens: []\nmore: 1\n")},
		{"an unknown key of a token", "unknown field", []byte("tokens: [{role: worker, secret: x}]\n")},
		{"no role", "the role is", with(func(e *Entry) { e.Role = "" })},
		{"another role", "the role is", with(func(e *Entry) { e.Role = "root" })},
		{"no tenant", "the tenant is", with(func(e *Entry) { e.Tenant = "" })},
		{"a strange tenant", "the tenant is", with(func(e *Entry) { e.Tenant = "a/b" })},
		{"a worker with a tenant", "remove tenant", with(func(e *Entry) { e.Role = RoleWorker })},
		{"no hash", "sha256", with(func(e *Entry) { e.SHA256 = "" })},
		{"a short hash", "sha256", with(func(e *Entry) { e.SHA256 = e.SHA256[2:] })},
		{"the token itself", "sha256", with(func(e *Entry) { e.SHA256 = "coppice_x" })},
		{"twice", "twice", listOf(t, entry, entry)},
		{"a second document", "one YAML document", append(listOf(t, entry), "---\ntokens: []\n"...)},
	} {
		path := filepath.Join(t.TempDir(), "tokens.yaml")
		write(t, path, c.data)
		if _, err := OpenTokens(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if _, err := OpenTokens(filepath.Join(t.TempDir(), "none"), slog.New(slog.DiscardHandler)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestTokenOfACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []string
		want   string
	}{
		{nil, ""}, {[]string{"Bearer t"}, "t"}, {[]string{"bearer t"}, "t"}, {[]string{"Basic t"}, ""}, {[]string{"t"}, ""},
		{[]string{"Bearer t", "Bearer t"}, ""}, {[]string{""}, ""},
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{header: c.values})
		if got := TokenFromContext(ctx); got != c.want {
			t.Errorf("%q: %q", c.values, got)
		}
	}
	if got := TokenFromContext(context.Background()); got != "" {
		t.Errorf("no metadata: %q", got)
	}
	if who := FromContext(t.Context()); who != (Identity{}) {
		t.Errorf("nobody said who calls: %v", who)
	}
}

// TestAdmit: without tokens a server is for its own machine, unless somebody says
// otherwise.
func TestAdmit(t *testing.T) {
	t.Parallel()
	tokens := &Tokens{now: time.Now}
	at := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 7070} }
	for i, c := range []struct {
		server Server
		at     net.Addr
		fits   bool
		logged string
	}{
		{Server{}, at("127.0.0.1"), true, "every program on this machine"},
		{Server{}, at("::1"), true, "every program on this machine"},
		{Server{}, at("127.9.9.9"), true, "every program on this machine"},
		{Server{}, &net.UnixAddr{Name: "/s"}, true, "every program on this machine"},
		{Server{}, at("0.0.0.0"), false, ""},
		{Server{}, at("::"), false, ""},
		{Server{}, at("10.1.2.3"), false, ""},
		{Server{Insecure: true}, at("0.0.0.0"), true, "every client that can reach the port"},
		{Server{Tokens: tokens}, at("127.0.0.1"), true, ""},
		{Server{Tokens: tokens}, at("0.0.0.0"), true, "unencrypted"},
		{Server{Tokens: tokens, TLS: Server{}.Transport()}, at("0.0.0.0"), true, ""},
	} {
		var log strings.Builder
		err := c.server.CheckListen(t.Context(), c.at, slog.New(slog.NewTextHandler(&log, nil)))
		if (err == nil) != c.fits || (log.Len() == 0) != (c.logged == "") || !strings.Contains(log.String(), c.logged) {
			t.Errorf("%d, on %s: %v, logged %q", i, c.at, err, &log)
		}
	}
}

// TestWhenATokenExpires: what is no time is refused, rather than that the token never expires.
func TestWhenATokenExpires(t *testing.T) {
	t.Parallel()
	line := "tokens: [{role: worker, sha256: '" + strings.Repeat("0", 64) + "', expires: %s}]"
	at := time.Date(2030, 2, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2030-02-01T00:00:00Z": at, "2030-02-01T01:00:00.5+01:00": at.Add(time.Second / 2), `"2030-02-01"`: at, "2030-2-1": at, "2030-02-01 00:00:00": at,
		"": {}, "null": {}, "~": {},
	} {
		all, err := parseTokens(fmt.Appendf(nil, line, text))
		if got := all[[32]byte{}].expires; err != nil || !got.Equal(want) {
			t.Errorf("expires: %s is %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"tomorrow", "720h", "2030-02-01T00:00:00", "2030-02-30", "01.02.2030", "1893456000", "[]", "true"} {
		if all, err := parseTokens(fmt.Appendf(nil, line, text)); err == nil {
			t.Errorf("expires: %s is taken for %s", text, all[[32]byte{}].expires)
		}
	}
}

// TestAMarkBeforeTheTokens: some editors start a file with a byte order mark.
func TestAMarkBeforeTheTokens(t *testing.T) {
	t.Parallel()
	_, entry := made(t, Identity{"ci", "acme", RoleClient}, time.Time{})
	if all, err := parseTokens(append([]byte("\ufeff"), listOf(t, entry)...)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestNamesAreTakenAsWritten: a tenant that YAML takes for a number is not another tenant.
func TestNamesAreTakenAsWritten(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"acme": "acme", `"0123"`: "0123", "2030-01-01": "2030-01-01", "!!str acme": "acme", "&same acme": "acme", "*tenant": "t",
		"7": "7", "007": "007", "0123": "0123", "1_000": "1_000", "0x10": "0x10", "0b1": "0b1", "0o17": "0o17",
		"1.10": "1.10", "1.": "1.", "1e3": "1e3", "True": "True", "!!str 007": "007",
	}
	hash := "a" + strings.Repeat("0", 62)
	for text, want := range names {
		all, err := parseTokens(fmt.Appendf(nil, `tokens:
  - {role: client, tenant: &tenant t, sha256: %[2]s1}
  - {name: %[1]s, role: client, tenant: %[1]s, sha256: %[2]s2}
  - {name: null, role: worker, tenant: , sha256: %[2]s3}
`, text, hash))
		if got := all[[32]byte{0: 0xa0, 31: 2}].who; err != nil || got != (Identity{want, want, RoleClient}) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, tenant := range []string{"[acme]", "{acme: 1}"} {
		if all, err := parseTokens(fmt.Appendf(nil, "tokens: [{role: client, tenant: %s, sha256: %s1}]", tenant, hash)); err == nil {
			t.Errorf("the tenant %s: %v", tenant, all)
		}
	}
}

func TestWhereATokenMayGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, ca := filepath.Join(dir, "token"), filepath.Join(dir, "ca.pem")
	write(t, token, []byte("coppice_x\n"))
	write(t, ca, authtest.NewAuthority(t).PEM)
	for _, c := range []struct {
		flags  ClientFlags
		target string
		fits   bool
	}{
		{ClientFlags{}, "far:7070", true},
		{ClientFlags{Token: "x"}, "127.0.0.1:7070", true},
		{ClientFlags{TokenFile: token}, "localhost:7070, [::1]:7070", true},
		{ClientFlags{TokenFile: token}, "dns:///localhost:7070", true},
		{ClientFlags{TokenFile: token}, "unix:///run/far.sock", true},
		{ClientFlags{TokenFile: token}, "far:7070", false},
		{ClientFlags{TokenFile: token}, "dns:///far:7070", false},
		{ClientFlags{Token: "x"}, "127.0.0.1:7070,far:7070", false},
		{ClientFlags{Token: "x"}, "far", false},
		{ClientFlags{Token: "x", Insecure: true}, "far:7070", true},
		{ClientFlags{Token: "x", TLS: true}, "far:7070", true},
		{ClientFlags{Token: "x", TLSCA: ca}, "far:7070", true},
		{ClientFlags{Token: "x", TLSCA: token}, "far:7070", false},
		{ClientFlags{Token: "x", TokenFile: token}, "127.0.0.1:7070", false},
		{ClientFlags{Token: " x\n"}, "127.0.0.1:7070", true},
		{ClientFlags{Token: "x y"}, "127.0.0.1:7070", false},
		{ClientFlags{Token: "x\xe9"}, "127.0.0.1:7070", false},
		{ClientFlags{Token: "\n"}, "127.0.0.1:7070", false},
		{ClientFlags{TokenFile: filepath.Join(dir, "none")}, "127.0.0.1:7070", false},
		{ClientFlags{TokenFile: ca}, "127.0.0.1:7070", false},
		{ClientFlags{TLS: true, TLSCert: ca}, "far:7070", false},
		{ClientFlags{TLSCert: ca, TLSKey: ca}, "far:7070", false},
	} {
		if _, err := c.flags.Options(c.target, slog.New(slog.DiscardHandler)); (err == nil) != c.fits {
			t.Errorf("%+v to %s: %v", c.flags, c.target, err)
		}
	}
	if err := (Identity{Role: RoleClient, Tenant: strings.Repeat("x", 64)}).Check(); err == nil {
		t.Error("a tenant's name has no bound")
	}
}

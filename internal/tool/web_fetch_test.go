package tool

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/coppice-run/coppice/internal/outbound"
	"github.com/coppice-run/coppice/internal/policy"
)

// fetching gives a fetch from a server that may be reached though it is not on the
// internet. {HOST} in a URL is the server.
func fetching(t *testing.T, handler http.HandlerFunc) func(path string) Done {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	allowed, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	must(t, err)
	tool := newWebFetch(outbound.Dialer{Exempt: allowed.Exempt})
	return func(path string) Done {
		done := fetchWith(t, tool, server.URL+path)
		done.Text = strings.ReplaceAll(done.Text, server.URL, "http://HOST")
		return done
	}
}

func fetchWith(t testing.TB, tool Tool, target string) Done {
	t.Helper()
	input, err := json.Marshal(map[string]string{"url": target})
	must(t, err)
	done, ok := tool.Call(t.Context(), Call{Input: input}).(Done)
	if !ok || len(done.Text) > maxOutput || !utf8.ValidString(done.Text) || done.Text == "" {
		t.Fatalf("%s: not done, or not fit to be stored: %d bytes", target, len(done.Text))
	}
	return done
}

func TestWebFetchKinds(t *testing.T) {
	t.Parallel()
	fetch := fetching(t, func(w http.ResponseWriter, r *http.Request) {
		kind, body := r.URL.Query().Get("type"), r.URL.Query().Get("body")
		w.Header()["Content-Type"] = []string{kind}
		if kind == "" {
			w.Header()["Content-Type"] = nil
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct{ kind, body, want string }{
		{"text/plain", "a < b\n\tc", "a < b\n\tc"},
		{"application/json; charset=utf-8", `{"a": [1, "é"]}`, `{"a": [1, "é"]}`},
		{"application/problem+json", `{}`, `{}`},
		{"text/markdown", "# A\n\n- b", "# A\n\n- b"},
		{"application/yaml", "\r\n\n  a: 1\n  b: 2\n\n", "\n\n  a: 1\n  b: 2"},
		{"text/html", "<title> T\n t</title><p>x", "Title: T t\n\nx"},
		{"", "<!doctype html><p>sniffed", "sniffed"},
		{"", "just text", "just text"},
		{"text/plain; charset=iso-8859-1", "caf\xe9", "café"},
		{"text/plain", "caf\xe9", "café"},
		{"text/plain; charset=utf-16le", "a\x00b\x00", "ab"},
		{"text/plain; charset=UTF-16LE", "a\x00b\x00", "ab"},
		{"text/plain", "\xff\xfea\x00b\x00", "ab"},
		{"text/html", "\xfe\xff\x00<\x00p\x00>\x00b", "b"},
		{"text/html", "<meta charset=windows-1252><p>caf\xe9", "café"},
		{"text/html", "<meta charset=iso-2022-jp><p>\x1b$B$3$s\x1b(B", "こん"},
		{"text/html", "<meta charset=windows-1252><p>café", "café"},
		{"", "<!doctype html><meta charset=windows-1251><p>\xcf\xf0\xe8", "При"},
		{"", "caf\xe9", "café"},
		{"", "\xff\xfea\x00b\x00", "ab"},
		{"application/rss+xml", "<?xml version=\"1.0\" encoding=\"windows-1251\"?>\n<t>\xcf\xf0\xe8</t>", "<t>При</t>"},
		{"application/xhtml+xml", "<?xml version='1.0' encoding='iso-8859-2' ?><p>\xb3", "ł"},
		{"text/xml", "<?xml version='1.0' encoding='iso-2022-jp'?><t>\x1b$B$3$s\x1b(B</t>", "<t>こん</t>"},
		{"text/xml", "<?xml version='1.0' encoding='utf-8'?><t>ł\xff</t>", "<t>ł\ufffd</t>"},
		{"text/xml", "<?xml version='1.0' encoding='utf-16'?><t>ł</t>", "<t>ł</t>"},
		{"text/xml", "<?xml version='1.0' encoding='iso-8859-1'?><t>ł</t>", "<t>ł</t>"},
		{"text/xml; charset=iso-8859-1", "<?xml version='1.0' encoding='iso-8859-2'?><t>\xb3</t>", "<t>³</t>"},
		{"application/xhtml+xml", "<title/><script src='x'/><p>y</p>", "\n\ny"},
		{"text/html; charset=\"utf-8", "<p>é", "é"},
		{"text/html; charset=utf-8; two words", "<p>é", "é"},
		{"text/plain", "\ufeffmark", "mark"},
		{"text/plain", " \n", "The document has no text."},
		{"text/html", "<script>x</script>", "The document has no text."},
		{"application/pdf", "%PDF", "is of the type application/pdf, which has no text that could be shown."},
		{"", "\x89PNG\r\n\x1a\n", "is of the type image/png"},
		{"text/plain", "a\x00b", "has no text that could be shown"},
		{"not a type;;", "x", "is of the type application/octet-stream"},
	} {
		got := fetch("/?" + url.Values{"type": {c.kind}, "body": {c.body}}.Encode())
		if got.IsError || !strings.HasSuffix(got.Text, c.want) && !strings.Contains(got.Text, c.want+".") && !strings.Contains(got.Text, c.want+",") {
			t.Errorf("%s %q: %+v, want %q", c.kind, c.body, got, c.want)
		}
	}
}

// Models write queries with blanks, which may not go out as they are.
func TestWebFetchQueriesAreEscaped(t *testing.T) {
	t.Parallel()
	fetch := fetching(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Query().Get("q")) })
	if got := fetch(`/?q=a b "ü" <c>+%26#d`); got.IsError || !strings.HasSuffix(got.Text, "\n\na b \"ü\" <c> &") {
		t.Errorf("%+v", got)
	}
}

func TestWebFetchBounds(t *testing.T) {
	t.Parallel()
	fetch := fetching(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/lines":
			for i := range 10_000 {
				fmt.Fprintf(w, "line %d é\n", i)
			}
		case "/line":
			io.WriteString(w, strings.Repeat("é", 40_000)+"the end")
		case "/bomb": // 50 MB that travel as 50 kB
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 50 {
				z.Write([]byte(strings.Repeat("0", 1<<20)))
			}
			z.Close()
		case "/links":
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<base href=/"+strings.Repeat("a", 400)+"/>"+strings.Repeat("<a href=x>y", 100_000))
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, "no such page"+strings.Repeat("!", 1<<20))
		case "/headers":
			for i := range 100 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 4<<10))
			}
		}
	})
	for path, wants := range map[string][]string{
		"/lines":   {"line 0 é\n", "\nline 9999 é", " bytes in the middle are not shown]\nline "},
		"/line":    {"\n\néé", "the end", "[cut: "},
		"/bomb":    {"[cut: only the first 5242880 bytes of the document were loaded]", "bytes in the middle are not shown]"},
		"/links":   {"[cut: only the first 10485760 bytes of the document's text are here]", "bytes in the middle are not shown]"},
		"/missing": {"HTTP 404 Not Found\nhttp://HOST/missing\n\nno such page!"},
		"/headers": {"http://HOST/headers: "},
	} {
		got := fetch(path)
		for _, want := range wants {
			if got.IsError != (path == "/missing" || path == "/headers") || !strings.Contains(got.Text, want) {
				t.Errorf("%s: %d bytes without %q: %.300q", path, len(got.Text), want, got.Text)
			}
		}
	}
}

// A document that is too long for a result is whole in the workspace; of one that is
// none, nothing is kept.
func TestWebFetchKeepsWhatIsLong(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("a line of a long page\n", 10_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	allowed, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	must(t, err)
	tool, ws := newWebFetch(outbound.Dialer{Exempt: allowed.Exempt}), setup(t)
	get := func(path string) Done {
		return tool.Call(t.Context(), Call{Input: fmt.Appendf(nil, `{"url":%q}`, server.URL+path), Workspace: ws}).(Done)
	}
	if got := get("/missing"); !got.IsError || len(everything(t, ws.Dir())) > 0 {
		t.Errorf("kept of an error: %s", everything(t, ws.Dir()))
	}
	got := get("/")
	m := namedFile.FindStringSubmatch(got.Text)
	if m == nil || len(got.Text) > maxOutput {
		t.Fatalf("%d bytes that name no file", len(got.Text))
	}
	check(t, ws, "grep", []toolCase{{fmt.Sprintf(`{"pattern":"long page","path":%q,"output_mode":"count"}`, m[1]), m[1] + ":10000"}})
}

func TestWebFetchRedirects(t *testing.T) {
	t.Parallel()
	fetch := fetching(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		if r.Header.Get("Cookie") != "" {
			t.Errorf("sent the cookie %q", r.Header.Get("Cookie"))
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if _, err := fmt.Sscanf(r.URL.Path, "/hops/%d", &n); err == nil && n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/x/%%2e%%2e/hops/%d", n-1), http.StatusFound)
			return
		}
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		fmt.Fprint(w, "arrived")
	})
	for path, want := range map[string]string{
		"/hops/0":                                "http://HOST/hops/0\n\narrived",
		"/hops/5":                                "http://HOST/hops/0\n\narrived",
		"/hops/6":                                "http://HOST/hops/6: more than 5 redirects",
		"/?to=https://go.dev/a":                  "http://HOST/?to=https://go.dev/a redirects to another host, which is not followed: https://go.dev/a\n",
		"/?to=http://127.0.0.1:1/":               "not followed: http://127.0.0.1:1/\n",
		"/?to=http://169.254.169.254/latest":     "not followed: http://169.254.169.254/latest\n",
		"/?to=file:///etc/passwd":                "not followed: file:///etc/passwd\n",
		"/?to=http://u:p@127.0.0.1/":             "not followed: http://u:p@127.0.0.1/\n",
		"/?to=http://2130706433/":                "not followed: http://2130706433/\n",
		"/?to=" + url.QueryEscape("http://a b/"): "http://HOST/?to=http%3A%2F%2Fa+b%2F: ",
	} {
		if got := fetch(path); !strings.Contains(got.Text, want) {
			t.Errorf("%s: %+v, want %q", path, got, want)
		}
	}
}

// A redirect within the host is followed only to what the rules allow.
func TestWebFetchRedirectsAreJudged(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		fmt.Fprint(w, "arrived")
	}))
	t.Cleanup(server.Close)
	allowed, err := outbound.ParseDestinations([]string{"127.0.0.1"})
	must(t, err)
	tool := newWebFetch(outbound.Dialer{Exempt: allowed.Exempt})
	rules := func(glob string) []policy.Rule {
		parsed, err := policy.ParseRules([]string{"web_fetch(" + server.URL + glob + ")"})
		must(t, err)
		return parsed
	}
	const arrives, stops = "\n\narrived", " redirects to what has to be allowed by itself, which is not followed: "
	for name, c := range map[string]struct {
		layer policy.Layer
		to    string
		want  string
	}{
		"no rules":        {policy.Layer{Mode: policy.ModeBypass}, "/private/x", arrives},
		"allowed":         {policy.Layer{Allow: rules("/docs/*"), Deny: rules("/private/*")}, "/docs/b", arrives},
		"denied":          {policy.Layer{Allow: rules("/docs/*"), Deny: rules("/private/*")}, "/private/x", stops + "HOST/private/x\nCall again"},
		"denied, escaped": {policy.Layer{Mode: policy.ModeBypass, Deny: rules("/private/*")}, "/docs/../%70rivate/x#y", stops + "HOST/%70rivate/x"},
		"asked":           {policy.Layer{Allow: rules("/*"), Ask: rules("/private/*")}, "/private/x", stops + "HOST/private/x\n"},
		"not allowed":     {policy.Layer{Allow: rules("/docs/*")}, "/private/x", stops + "HOST/private/x\n"},
		"on the way":      {policy.Layer{Mode: policy.ModeBypass, Deny: rules("/private/*")}, "/private/x?to=/docs/b", stops + "HOST/private/x?to=/docs/b\n"},
		"later":           {policy.Layer{Mode: policy.ModeBypass, Deny: rules("/private/*")}, "/b?to=/private/x", stops + "HOST/private/x\n"},
	} {
		input, err := json.Marshal(map[string]string{"url": server.URL + "/docs/a?to=" + url.QueryEscape(c.to)})
		must(t, err)
		done := tool.Call(t.Context(), Call{Input: input, Permissions: policy.RootAuthority(c.layer, policy.Permissions{}, false).Open()}).(Done)
		if got := strings.ReplaceAll(done.Text, server.URL, "HOST"); done.IsError || !strings.Contains(got, c.want) {
			t.Errorf("%s: %+v, want %q", name, done, c.want)
		}
	}
}

func TestWebFetchTimesOut(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "begins")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	allowed, err := outbound.ParseDestinations([]string{"127.0.0.0/8"})
	must(t, err)
	tool := newWebFetch(outbound.Dialer{Exempt: allowed.Exempt})
	tool.timeout = 100 * time.Millisecond
	for _, path := range []string{"/head", "/body"} {
		if got := fetchWith(t, tool, server.URL+path); !got.IsError || !strings.HasSuffix(got.Text, path+": no whole answer within 100ms") {
			t.Errorf("%s: %+v", path, got)
		}
	}
}

// What is decided on is the URL that is fetched, however it is written.
func TestWebFetchIsJudgedByItsURL(t *testing.T) {
	t.Parallel()
	layer := policy.Layer{}
	var err error
	layer.Allow, err = policy.ParseRules([]string{"web_fetch(https://go.dev/*)", "web_fetch(https://*.go.dev/*)"})
	must(t, err)
	layer.Deny, err = policy.ParseRules([]string{"web_fetch(https://go.dev/private/*)"})
	must(t, err)
	a := policy.RootAuthority(layer, policy.Permissions{}, false)
	for target, want := range map[string]policy.Decision{
		"https://go.dev":                           policy.Allow,
		"HTTPS://GO.dev.:443/doc":                  policy.Allow,
		"https://go.dev/private/x":                 policy.Deny,
		"https://go.dev/a/..//private/../private/": policy.Deny,
		"https://go.dev/%70rivate/x":               policy.Deny,
		"https://go.dev/a/%2e%2E/private/x#y":      policy.Deny,
		"https://ｇｏ.dev/private/x":                 policy.Deny,
		"http://go.dev/":                           policy.Ask,
		"https://go.dev:444/":                      policy.Ask,
		"https://go.dev@example.com/":              policy.Ask,
		"https://go.dev.example.com/":              policy.Ask,
		"https://pkg.go.dev/io":                    policy.Allow,
		"https://a.pkg.go.dev/":                    policy.Allow,
		"https://pkg.go.dev:444/":                  policy.Ask,
		"https://example.com/x.go.dev/":            policy.Ask,
		"https://example.com/?x.go.dev/":           policy.Ask,
		"":                                         policy.Ask,
	} {
		input, err := json.Marshal(map[string]string{"url": target})
		must(t, err)
		if v, arg := Judge(a.Open(), webFetchTool{}, Call{Input: input}); v.Decision != want {
			t.Errorf("%s (%s): %s, want %s", target, arg, v.Decision, want)
		}
	}
	if v, _ := Judge(policy.Authority("").Open(), webFetchTool{}, Call{}); v.Decision != policy.Ask {
		t.Errorf("by default it is %s", v.Decision)
	}
}

// A rule and a call mean the same URL, whichever of them has its characters escaped.
func TestWebFetchRulesNeedNoEscapes(t *testing.T) {
	t.Parallel()
	type calls map[string]bool // by their URL; whether a rule is for them
	for _, c := range []struct {
		written []string // a rule, in several ways
		wholly  calls
		partly  calls // what it asks about and denies, but does not allow
	}{
		{
			[]string{"https://go.dev/s?q=büro*", "https://go.dev/s?q=b%C3%BCro*", "https://go.dev/s?q=%62%c3%bcro*", "https://go.dev/s?q=b?ro*"},
			calls{
				"https://go.dev/s?q=büro": true, "https://go.dev/s?q=b%c3%bcro&x": true, "https://go.dev/%73?q=%62%C3%BCro": true,
				"https://go.dev/s?q=b%c3%bcro&%zz%FC": true, "https://go.dev/s?q=bu%CC%88ro": false, "https://go.dev/s?q=": false,
			},
			calls{"https://go.dev/s?q=büro": true, "https://go.dev/s%3Fq=büro": true, "https://go.dev/s?q=%25C3%BCro": false},
		},
		{
			[]string{`https://go.dev/a \"b"/{*}?<c>|d`, "https://go.dev/a%20%22b%22/%7b*%7D?%3Cc%3E%7cd", `https://go.dev/%61 %22b"/{*}?%3cc>|d`},
			calls{`https://go.dev/a "b"/{x}?<c>|d`: true, "https://go.dev/a%20%22b%22/%7bx%7d?%3cc%3e%7Cd": true, `https://go.dev/a+"b"/{x}?<c>|d`: false},
			calls{`https://go.dev/a "b"/%7bx%7d?<c>|d`: true, `https://go.dev/a "b"%2f{x}%3F<c>|d`: true},
		},
		{
			[]string{"https://*.bücher.example/ü/*", "https://*.xn--bcher-kva.example/ü/*", "https://*.bücher.example/%c3%bc/*"},
			calls{"https://www.BÜCHER.example/ü/": true, "https://www.xn--bcher-kva.example:443/%c3%bc/x": true, "https://www.bucher.example/ü/": false},
			calls{"https://www.bücher.example/ü/": true, "https://www.bücher.example/ü%2f": true},
		},
		{
			[]string{"https://go.dev/%2Fa?x=%26%25", "https://go.dev/%2fa?%78=%26%25"},
			calls{"https://go.dev/%2fa?x=%26%25": true, "https://go.dev//a?x=%26%25": false, "https://go.dev/%2Fa?x=&%25": false},
			calls{"https://go.dev//a?x=%26%25": true, "https://go.dev/%2Fa?x=&%25": true, "https://go.dev/%2Fa?x=%26%2525": false},
		},
	} {
		for _, rule := range c.written {
			rules, err := policy.ParseRules([]string{"web_fetch(" + rule + ")"})
			must(t, err)
			judged := func(l policy.Layer, target string, decision policy.Decision, want bool) {
				t.Helper()
				input, err := json.Marshal(map[string]string{"url": target})
				must(t, err)
				a := policy.RootAuthority(l, policy.Permissions{}, false).Open()
				if v, argument := Judge(a, webFetchTool{}, Call{Input: input}); (v.Decision == decision) != want {
					t.Errorf("%s on %s (%s): %s", l, target, argument, v.Decision)
				}
			}
			for target, want := range c.wholly {
				judged(policy.Layer{Allow: rules}, target, policy.Allow, want)
			}
			for target, want := range c.partly {
				judged(policy.Layer{Mode: policy.ModeBypass, Ask: rules}, target, policy.Ask, want)
				judged(policy.Layer{Mode: policy.ModeBypass, Deny: rules}, target, policy.Deny, want)
			}
		}
	}
}

func TestPageText(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("https://example.com/a/b?c")
	must(t, err)
	for in, want := range map[string]string{
		"<h1>One</h1><p>a  b\n c</p><h3>Three</h3>d":                            "# One\n\na b c\n\n### Three\n\nd",
		"<ul><li>a<li><p>b</p><ol><li>c</li><li>d</li></ol></li></ul>e":         "- a\n- b\n\n  1. c\n  2. d\ne",
		"see <a href='../x'>the <b>x</b></a>, or <a href=#y>y</a>.":             "see [the x](https://example.com/x), or y.",
		"<a href=/img><img src=x></a><a href=/i><img alt='an i'></a>":           "[[image: an i]](https://example.com/i)",
		"<a href='javascript:x()'>a</a> <a href='data:,x'>b</a>":                "a b",
		"<base href=https://go.dev/><a href=x>x</a>":                            "[x](https://go.dev/x)",
		"<base target=_top><base href=/y/><base href=z/><a href=x>x</a>":        "[x](https://example.com/y/x)",
		"<base href=/" + strings.Repeat("y", 500) + "/><a href=x>x</a>":         "[x](https://example.com/a/x)",
		"a<script>b</script><style>c</style><noscript>d</noscript>e":            "ae",
		"a<svg><title>b</title><svg></svg><path/></svg><template>c</template>d": "ad",
		"<ul><li><a href=/p><img src=x></a><p>a</ul>b<a href=/p></a>c<p>d":      "- a\nbc\n\nd",
		"<ol start=3><li>a<li value=9>b<li>c</ol><ol start=x><li>d</ol>":        "3. a\n9. b\n10. c\n1. d",
		"<ol start=-5><li>a</ol><ul><li value=9>b</ul>":                         "-5. a\n- b",
		"a<template><svg><select></template>b</select></svg><p>c":               "ab\n\nc",
		"<pre>x\n  y</pre>z": "```\nx\n  y\n```\n\nz",
		"<table><tr><th>a<th>b<tr><td>c</td><td>d</td></table>": "| a | b\n| c | d",
		"a<br>b<hr>c":                                 "a\nb\n\n---\nc",
		"&lt;b&gt; &amp; &eacute;&#0;":                "<b> & é\ufffd",
		"<blockquote>q</blockquote>":                  "> q",
		"<a href=x>open":                              "[open",
		strings.Repeat("<div><ul>", 100_000) + "deep": "deep",
	} {
		if _, got, whole, err := pageText(strings.NewReader(in), base, false); err != nil || got != want || !whole {
			t.Errorf("%.100s:\n got %.200q, %v, %v\nwant %q", in, got, whole, err, want)
		}
	}
}

// What follows an element that closes itself belongs to the page, except what follows a script or a
// style of HTML, which can't close themselves.
func TestPageTextWithElementsThatCloseThemselves(t *testing.T) {
	t.Parallel()
	base, err := url.Parse("https://example.com/")
	must(t, err)
	for _, c := range []struct {
		in, title, html, xhtml string
	}{
		{"<title>T</title><script src=x />a<p>b</p></script><p>c", "T", "c", "a\n\nb\n\nc"},
		{"<title>T</title><style/>a</style>b", "T", "b", "ab"},
		{"<title/><p>a</p><b>b</b>", "", "a\n\nb", "a\n\nb"},
		{"a<iframe src=x /><p>b</p>c<textarea/><i>d</i>", "", "a\n\nb\n\ncd", "a\n\nb\n\ncd"},
		{"a<svg><style/><script/><title/><path/></svg><p>b", "", "a\n\nb", "a\n\nb"},
		{"<pre><![CDATA[a<b>c]]></pre>d<![CDATA[e]]>", "", "```\nc]]>\n```\n\nd", "```\na<b>c\n```\n\nde"},
		{"<p>a<br/>b<hr/>c<a href='/x'/>d", "", "a\nb\n\n---\nc[d", "a\nb\n\n---\n\ncd"},
	} {
		for xml, want := range map[bool]string{false: c.html, true: c.xhtml} {
			if title, got, _, err := pageText(strings.NewReader(c.in), base, xml); err != nil || got != want || title != c.title {
				t.Errorf("%s, as XHTML: %t:\n got %q titled %q, %v\nwant %q titled %q", c.in, xml, got, title, err, want, c.title)
			}
		}
	}
}

// A page may make far more text than it has bytes itself.
func TestPageTextIsBounded(t *testing.T) {
	t.Parallel()
	address, err := url.Parse("https://example.com/" + strings.Repeat("a/", 200))
	must(t, err)
	for in, more := range map[string]int{
		"<a href=x>é": maxPage/len(address.String()) + 1,
		"é":           maxPage/2 + 1,
	} {
		_, got, whole, err := pageText(strings.NewReader(strings.Repeat(in, more)), address, false)
		if err != nil || whole || len(got) > maxPage || len(got) < maxPage-100 || !utf8.ValidString(got) {
			t.Errorf("%d times %s: %d bytes, %v, %v", more, in, len(got), whole, err)
		}
	}
}

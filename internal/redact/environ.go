package redact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// secretWords are words in names whose values are secrets. harmlessWords are last words of
// names that look like it, but whose values are a location or a quantity.
var (
	secretWords = []string{
		"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "CREDENTIAL", "DSN", "COOKIE", "WEBHOOK",
	}
	harmlessWords = []string{
		"FILE", "PATH", "DIR", "ENDPOINT", "HOST", "PORT", "TTL", "TIMEOUT", "SOCK", "LIMIT", "COUNT", "LENGTH",
		"ENABLED", "ALGORITHM", "TYPE", "REGION", "EXPIRY", "LAYOUT",
	}
)

// gitSetting begins the names of variables whose values are names of git's settings.
const gitSetting = "GIT_CONFIG_KEY_"

// namesSecret reports whether a name indicates that its value is a secret.
func namesSecret(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 || slices.Contains(harmlessWords, words[len(words)-1]) || strings.HasPrefix(name, gitSetting) {
		return false
	}
	if len(words) > 1 && words[len(words)-1] == "PWD" { // on its own, PWD is the shell's directory
		return true
	}
	return slices.ContainsFunc(secretWords, func(end string) bool { return hasEnding(words, end) })
}

// namesAddress reports whether a name indicates an address. An address as a whole is not a
// secret, except that of a webhook.
func namesAddress(name string) bool {
	words := wordsOf(name)
	return len(words) > 1 && slices.Contains([]string{"URL", "URI"}, words[len(words)-1]) && !hasEnding(words, "WEBHOOK")
}

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToUpper(name), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
}

// hasEnding reports whether a word ends with a text, or with its plural.
func hasEnding(words []string, end string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		word = strings.TrimRight(word, "0123456789")
		return strings.HasSuffix(word, end) || strings.HasSuffix(word, end+"S")
	})
}

// FromEnviron returns the secrets in an environment with entries as in [os.Environ]: variables
// whose names indicate a secret, the named variables, and passwords in URLs.
func FromEnviron(environ, named []string) []Secret {
	var all []Secret
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch {
		case exporterHeaders.MatchString(name):
			all = append(all, headerSecrets(name, value, ",", "=")...)
		case providerHeaders.MatchString(name):
			all = append(all, headerSecrets(name, value, "\n", ":")...)
		}
		if isURL(value) && !slices.Contains(named, name) {
			plain := !namesSecret(name) || namesAddress(name)
			switch {
			case !isDocument(value):
				all = append(all, FromURL(name, value)...)
			case plain: // otherwise its content is searched below
				all = append(all, nestedSecrets(name, value)...)
			}
			if plain {
				continue
			}
		}
		if slices.Contains(named, name) || namesSecret(name) {
			all = append(all, Secret{name, value})
			all = append(all, nestedSecrets(name, value)...)
		}
	}
	return all
}

// Variables with the headers that OpenTelemetry's exporters send, and those that providers are sent.
var (
	exporterHeaders = regexp.MustCompile(`^OTEL_EXPORTER_OTLP_(\w+_)?HEADERS$`)
	providerHeaders = regexp.MustCompile(`^(OPENAI|ANTHROPIC)_CUSTOM_HEADERS$`)
)

// teamHeader is a header whose name does not indicate that its value is a key.
const teamHeader = "X-HONEYCOMB-TEAM"

// headerSecrets returns the secrets in a list of headers, such as authorization=Bearer%20token, with
// what stands between two headers and after the name of one.
func headerSecrets(name, list, between, after string) []Secret {
	var all []Secret
	for pair := range strings.SplitSeq(list, between) {
		header, written, _ := strings.Cut(pair, after)
		header = strings.ToUpper(strings.TrimSpace(header))
		if !namesSecret(header) && header != teamHeader && !strings.HasSuffix(header, "AUTHORIZATION") {
			continue
		}
		values := []string{strings.TrimSpace(written)}
		if meant, err := url.PathUnescape(values[0]); err == nil {
			_, credentials, _ := strings.Cut(meant, " ")
			values = append(values, meant, credentials)
		}
		for _, value := range slices.Compact(values) {
			if value != "" {
				all = append(all, Secret{name, value})
			}
		}
	}
	return all
}

func isURL(value string) bool { return strings.Contains(value, "://") }

// isDocument reports whether a value is a JSON object or list. URLs in it are members.
func isDocument(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && strings.ContainsRune("{[", rune(value[0])) && json.Valid([]byte(value))
}

// FromURL returns the secrets in a URL: the password, also in the key=value form that databases
// accept. A user without a password is a key. If the URL is invalid, or may have been parsed
// wrongly, it returns the text at the place of a password.
func FromURL(name, value string) []Secret {
	if !isURL(value) {
		return nestedSecrets(name, value)
	}
	var all []Secret
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return append([]Secret{{name, value}}, misreadPassword(name, value)...)
	case isMisread(u):
		all = misreadPassword(name, value)
	}
	switch password, ok := u.User.Password(); {
	case ok:
		all = append(all, Secret{name, password})
	case u.User.Username() != "" && namesSecret(name):
		all = append(all, Secret{name, u.User.Username()})
	}
	for key, values := range u.Query() {
		if !namesSecret(key) {
			continue
		}
		for _, v := range values {
			all = append(all, Secret{name, v})
		}
	}
	return all
}

// servers are the URL schemes of databases and message brokers whose URLs contain no @ except
// before the host.
var servers = []string{
	"redis", "rediss", "valkey", "postgres", "postgresql", "mysql", "mariadb", "mongodb", "mongodb+srv", "sqlserver",
	"clickhouse", "cockroachdb", "amqp", "amqps", "nats",
}

// isMisread reports whether a server's URL has a password with a character that is special in
// URLs, so that the password was parsed as the end of the host and what follows.
func isMisread(u *url.URL) bool {
	return slices.Contains(servers, strings.ToLower(u.Scheme)) && u.User == nil &&
		(strings.Contains(u.Path+u.Fragment, "@") || u.Path == "" && strings.Contains(u.RawQuery, "@"))
}

// misreadPassword returns the password of a URL that was parsed wrongly: the text between the
// first colon after the scheme and the last @, raw and decoded, and the pieces that a parser
// may have seen in it.
func misreadPassword(name, value string) []Secret {
	_, rest, _ := strings.Cut(value, "://")
	at := max(0, strings.LastIndex(rest, "@"))
	_, password, ok := strings.Cut(rest[:at], ":")
	if !ok {
		return nil
	}
	values := []string{password}
	if meant, err := url.PathUnescape(password); err == nil {
		values = append(values, meant)
	}
	for _, v := range slices.Clone(values) {
		values = append(values, strings.FieldsFunc(v, func(c rune) bool { return strings.ContainsRune("/?#:@", c) })...)
	}
	var all []Secret
	for _, v := range values {
		if s := (Secret{name, v}); v != "" && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// querySetting matches a setting in a URL's query that has a value.
var querySetting = regexp.MustCompile(`([^&;=]+)=[^&;]*`)

// WithoutPassword returns a URL for display: without the password before the host, and without
// the values of settings whose names indicate secrets.
func WithoutPassword(value string) string {
	u, err := url.Parse(value)
	if err != nil || isMisread(u) {
		return "[an address that can't be read]"
	}
	u.RawQuery = querySetting.ReplaceAllStringFunc(u.RawQuery, func(setting string) string {
		written, _, _ := strings.Cut(setting, "=")
		if key, err := url.QueryUnescape(written); err == nil && !namesSecret(key) {
			return setting
		}
		return written + "=xxxxx"
	})
	return u.Redacted()
}

var (
	setting    = regexp.MustCompile(`(?i)(?:^|[\s;])(?:password|pwd)\s*=\s*('[^']*'|[^\s;]+)`)
	beforeHost = regexp.MustCompile(`^[^:@/\s]+:([^@\s]+)@`)
)

// nestedSecrets returns the secrets inside a value: the password in connection settings, and
// those of a JSON document.
func nestedSecrets(name, value string) []Secret {
	var all []Secret
	for _, found := range setting.FindAllStringSubmatch(value, -1) {
		all = append(all, Secret{name, strings.Trim(found[1], "'")})
	}
	if found := beforeHost.FindStringSubmatch(value); found != nil && !isURL(value) {
		all = append(all, Secret{name, found[1]})
	}
	var document any
	if json.Unmarshal([]byte(value), &document) == nil {
		all = append(all, members(name, document, namesSecret(name))...)
	}
	return all
}

// members returns the secrets in a JSON value: the texts of members, at any depth, whose names
// indicate secrets, texts of lists under such a name, and secrets in URLs.
func members(name string, value any, told bool) []Secret {
	var all []Secret
	switch value := value.(type) {
	case string:
		address := isURL(value)
		if address {
			all = FromURL(name, value)
		}
		if told && !(address && namesAddress(name)) {
			all = append(all, Secret{name, value})
		}
	case []any:
		for _, v := range value {
			all = append(all, members(name, v, told)...)
		}
	case map[string]any:
		variable, _, _ := strings.Cut(name, ".")
		for _, key := range slices.Sorted(maps.Keys(value)) {
			all = append(all, members(variable+"."+key, value[key], namesSecret(key))...)
		}
	}
	return all
}

// ofFile ends the names of secrets from a file.
const ofFile = " of the file of secrets"

// maxFile bounds a file of secrets, in bytes.
const maxFile = 1 << 20

// FromFile reads a file with one secret per line. The secrets are named by their lines.
func FromFile(path string) ([]Secret, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the secrets to redact: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading the secrets to redact: %s has %d bytes, at most %d", path, len(data), maxFile)
	}
	if bytes.IndexByte(data, 0) >= 0 { // its lines would match nothing
		return nil, fmt.Errorf("reading the secrets to redact: %s: expected text in UTF-8, got NUL bytes, as UTF-16 has them", path)
	}
	var all []Secret
	line := 0
	for text := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) { // some editors start a file with it
		line++
		all = append(all, Secret{fmt.Sprintf("line %d%s", line, ofFile), text})
	}
	return all, nil
}

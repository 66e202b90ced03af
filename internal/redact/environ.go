package redact

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
)

// secretWords are words in names whose values are secrets, and harmless are last words
// of names that look like it but say where something is, or how much of it.
var (
	secretWords = []string{
		"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "CREDENTIAL", "DSN", "COOKIE", "WEBHOOK",
	}
	harmlessWords = []string{
		"FILE", "PATH", "DIR", "ENDPOINT", "HOST", "PORT", "TTL", "TIMEOUT", "SOCK", "LIMIT", "COUNT", "LENGTH",
		"ENABLED", "ALGORITHM", "TYPE", "REGION", "EXPIRY", "LAYOUT",
	}
)

// namesSecret reports whether a name says that its value is a secret.
func namesSecret(name string) bool {
	words := wordsOf(name)
	if len(words) == 0 || slices.Contains(harmlessWords, words[len(words)-1]) {
		return false
	}
	if len(words) > 1 && words[len(words)-1] == "PWD" { // alone it is a shell's directory
		return true
	}
	return slices.ContainsFunc(secretWords, func(end string) bool { return hasEnding(words, end) })
}

// namesAddress reports whether a name says that its value is an address, which is no
// secret as a whole: a webhook's is one.
func namesAddress(name string) bool {
	words := wordsOf(name)
	return len(words) > 1 && slices.Contains([]string{"URL", "URI"}, words[len(words)-1]) && !hasEnding(words, "WEBHOOK")
}

func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.ToUpper(name), func(c rune) bool { return c == '_' || c == '-' || c == '.' })
}

// hasEnding reports whether one of the words has an end, or its plural.
func hasEnding(words []string, end string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		word = strings.TrimRight(word, "0123456789")
		return strings.HasSuffix(word, end) || strings.HasSuffix(word, end+"S")
	})
}

// FromEnviron gives the secrets of an environment, whose entries are as those of
// [os.Environ]: variables whose names say so or that are named, and passwords in
// URLs.
func FromEnviron(environ, named []string) []Secret {
	var all []Secret
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if isURL(value) && !slices.Contains(named, name) {
			plain := !namesSecret(name) || namesAddress(name)
			switch {
			case !isDocument(value):
				all = append(all, FromURL(name, value)...)
			case plain: // otherwise it is looked into below
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

func isURL(value string) bool { return strings.Contains(value, "://") }

// isDocument reports whether a value is an object or a list of JSON, whose URLs are members.
func isDocument(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && strings.ContainsRune("{[", rune(value[0])) && json.Valid([]byte(value))
}

// FromURL gives what is secret of a URL: the password in it, or in the form of a list
// of settings that databases know as well. A user without a password is a key. If the URL
// can't be read, or is read wrongly, it is what is where a password would be.
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

// servers are the schemes of databases and of what passes messages on, as far as their
// URLs are known to have no @ elsewhere.
var servers = []string{
	"redis", "rediss", "valkey", "postgres", "postgresql", "mysql", "mariadb", "mongodb", "mongodb+srv", "sqlserver",
	"clickhouse", "cockroachdb", "amqp", "amqps", "nats",
}

// isMisread reports whether the URL of a server has a password with what means something in
// URLs, so that it was taken for the end of the host and what follows.
func isMisread(u *url.URL) bool {
	return slices.Contains(servers, strings.ToLower(u.Scheme)) && u.User == nil &&
		(strings.Contains(u.Path+u.Fragment, "@") || u.Path == "" && strings.Contains(u.RawQuery, "@"))
}

// misreadPassword gives the password of a URL that was not read as it was meant: what is between the
// first colon after the scheme and the last @, as it is written and as it is meant, and
// the pieces that a reader may have seen in it.
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

// querySetting is a setting in a URL's query, as far as it has a value.
var querySetting = regexp.MustCompile(`([^&;=]+)=[^&;]*`)

// WithoutPassword gives a URL as it may be shown: without the password before its host,
// and the values of settings whose names tell of secrets.
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

// nestedSecrets gives the secrets within one: the password of a connection's settings, and
// those of a document.
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

// members gives the secrets of a value in a document: the texts of members whose names say so,
// wherever they stand, and of lists under such a name, and what is secret of URLs.
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

// ofFile ends the names of secrets of a file.
const ofFile = " of the file of secrets"

// maxFile bounds a file of secrets, in bytes.
const maxFile = 1 << 20

// FromFile reads a file with one secret a line; its lines are their names.
func FromFile(path string) ([]Secret, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the secrets to redact: %w", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("reading the secrets to redact: %s has %d bytes, at most %d", path, len(data), maxFile)
	}
	var all []Secret
	line := 0
	for text := range strings.Lines(string(data)) {
		line++
		all = append(all, Secret{fmt.Sprintf("line %d%s", line, ofFile), text})
	}
	return all, nil
}

package redact_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/redact"
)

func TestFromEnviron(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string][]redact.Secret{
		"ANTHROPIC_API_KEY=sk-1": {{Name: "ANTHROPIC_API_KEY", Value: "sk-1"}},
		"GITHUB_TOKEN=ghp":       {{Name: "GITHUB_TOKEN", Value: "ghp"}},
		"OPENAI_APIKEY2=k":       {{Name: "OPENAI_APIKEY2", Value: "k"}},
		"db_passwords=a":         {{Name: "db_passwords", Value: "a"}},
		"AWS_CREDENTIALS=a":      {{Name: "AWS_CREDENTIALS", Value: "a"}},
		"PGPASS=a":               {{Name: "PGPASS", Value: "a"}},
		"NAMED=x y":              {{Name: "NAMED", Value: "x y"}},
		"NAMED=http://plain/":    {{Name: "NAMED", Value: "http://plain/"}},
		"MYSQL_PWD=a":            {{Name: "MYSQL_PWD", Value: "a"}},
		"oracle_pwd=a":           {{Name: "oracle_pwd", Value: "a"}},
		"DB_PWD_FILE=/x":         nil,
		"HOME=/root":             nil,
		"KEYBOARD=us":            nil,
		"SSH_KEY_PATH=/x":        nil,
		"PWD=/x":                 nil,
		"OLDPWD=/x":              nil,
		"COPPICE_DATABASE_URL=postgres://u:pa%40ss@h/": {{Name: "COPPICE_DATABASE_URL", Value: "pa@ss"}},
		"COPPICE_DATABASE_URL=coppice.db":              nil,
		"COPPICE_REDIS_URL=redis://:pw@h:1/0":          {{Name: "COPPICE_REDIS_URL", Value: "pw"}},
		"PROXY=http://h/a@b":                           nil,
		"PROXY=http://h?token=t&x=y":                   {{Name: "PROXY", Value: "t"}},
		"OAUTH_TOKEN_URL=https://h/token":              nil,
		"GIT_CONFIG_KEY_0=safe.directory":              nil,
		"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20t0ken,x-scope=all, x-api-key=k=1": {
			{Name: "OTEL_EXPORTER_OTLP_HEADERS", Value: "Bearer%20t0ken"}, {Name: "OTEL_EXPORTER_OTLP_HEADERS", Value: "Bearer t0ken"},
			{Name: "OTEL_EXPORTER_OTLP_HEADERS", Value: "t0ken"}, {Name: "OTEL_EXPORTER_OTLP_HEADERS", Value: "k=1"},
		},
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS=x-honeycomb-team=t": {{Name: "OTEL_EXPORTER_OTLP_TRACES_HEADERS", Value: "t"}},
		"OPENAI_CUSTOM_HEADERS=X-Team: all\nAuthorization: Bearer t0ken": {
			{Name: "OPENAI_CUSTOM_HEADERS", Value: "Bearer t0ken"}, {Name: "OPENAI_CUSTOM_HEADERS", Value: "t0ken"},
		},
		"SENTRY_DSN=https://public@h/1":            {{Name: "SENTRY_DSN", Value: "public"}, {Name: "SENTRY_DSN", Value: "https://public@h/1"}},
		"SLACK_WEBHOOK=https://h/T1/B2":            {{Name: "SLACK_WEBHOOK", Value: "https://h/T1/B2"}},
		"SLACK_WEBHOOK_URL=https://h/T1/B2":        {{Name: "SLACK_WEBHOOK_URL", Value: "https://h/T1/B2"}},
		"DISCORD_WEBHOOK2_URL=https://h/1/t?key=k": {{Name: "DISCORD_WEBHOOK2_URL", Value: "k"}, {Name: "DISCORD_WEBHOOK2_URL", Value: "https://h/1/t?key=k"}},
		"WEBHOOK_TOKEN_FILE=https://h/T1/B2":       nil,
		"PG_DSN=host=h password='a b' user=u":      {{Name: "PG_DSN", Value: "host=h password='a b' user=u"}, {Name: "PG_DSN", Value: "a b"}},
		"MY_DSN=u:pw@tcp(h)/d":                     {{Name: "MY_DSN", Value: "u:pw@tcp(h)/d"}, {Name: "MY_DSN", Value: "pw"}},
		`GCP_KEY={"type":"t","private_key":"k"}`: {
			{Name: "GCP_KEY", Value: `{"type":"t","private_key":"k"}`}, {Name: "GCP_KEY.private_key", Value: "k"},
		},
		`API_KEYS=["a", "b"]`: {{Name: "API_KEYS", Value: `["a", "b"]`}, {Name: "API_KEYS", Value: "a"}, {Name: "API_KEYS", Value: "b"}},
	} {
		if got := redact.FromEnviron([]string{entry}, []string{"NAMED"}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", entry, got, want)
		}
	}
}

// TestMembersOfDocuments: members whose names say so are secrets wherever they stand in a
// JSON document.
func TestMembersOfDocuments(t *testing.T) {
	t.Parallel()
	for document, want := range map[string][]redact.Secret{
		`{"installed":{"client_secret":"a","auth_uri":"https://x"},"token":"b"}`:    {{Name: "client_secret", Value: "a"}, {Name: "token", Value: "b"}},
		"\n [{\"token\":\"a\"}, {\"x\": [[{\"apikey\":\"b\"}]]}]":                   {{Name: "token", Value: "a"}, {Name: "apikey", Value: "b"}},
		`{"tokens":["a",["b"],{"name":"c","secret":"d"},1,null]}`:                   {{Name: "tokens", Value: "a"}, {Name: "tokens", Value: "b"}, {Name: "secret", Value: "d"}},
		`{"credentials":{"type":"t","key":"a"},"key_path":["b"]}`:                   {{Name: "key", Value: "a"}},
		strings.Repeat(`[{"x":`, 1000) + `{"key":"a"}` + strings.Repeat(`}]`, 1000): {{Name: "key", Value: "a"}},
		`{"auth_uri":"https://a.example/x","token_uri":"https://b.example/y","webhook_token_url":"https://c.example/z","client_email":"a@b"}`: {
			{Name: "webhook_token_url", Value: "https://c.example/z"},
		},
		`{"at":["postgres://u:pass-1234@h/d"]}`: {{Name: "at", Value: "pass-1234"}},
		`{"key":1}`:                             nil,
		`{"key":"a"`:                            nil,
		`{"a":"key"}`:                           nil,
	} {
		whole := redact.Secret{Name: "NAMED", Value: document}
		var got []redact.Secret
		for _, s := range redact.FromEnviron([]string{"NAMED=" + document}, []string{"NAMED"}) {
			if s != whole {
				s.Name = strings.TrimPrefix(s.Name, "NAMED.")
				got = append(got, s)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%.80s: %q, want %q", document, got, want)
		}
	}
}

// TestPasswordsOfUnreadableURLs: what is between a user and a host is a secret, and so is each piece of
// it that a reader may have taken for something else.
func TestPasswordsOfUnreadableURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"redis://worker:Kq8vZp3TnWx5/aYb@host":        {"Kq8vZp3TnWx5/aYb", "Kq8vZp3TnWx5", "aYb"},
		"redis://worker:Kq8vZp3TnWx5#aYb@host/1":      {"Kq8vZp3TnWx5#aYb", "Kq8vZp3TnWx5", "aYb"},
		"redis://worker:12345678/aYb@host/1":          {"12345678/aYb", "12345678", "aYb"},
		"redis://worker:12345678?aYb@host/1":          {"12345678?aYb", "12345678", "aYb"},
		"Postgres://coppice:12345678#aYb@db/coppice":  {"12345678#aYb", "12345678", "aYb"},
		"postgres://coppice:a?b:c@d@db/coppice":       {"a?b:c@d", "a", "b", "c", "d"},
		"postgres://coppice:a%zz/b@db/coppice":        {"a%zz/b", "a%zz", "b"},
		"postgres://coppice:pa%2Fss@a:1,b:2/coppice":  {"pa/ss"},
		"postgres://coppice:pa%2Fss/x@db/coppice":     {"pa%2Fss/x", "pa/ss/x", "pa%2Fss", "x", "pa", "ss"},
		"postgres://coppice:plain-word@[::1/coppice":  {"plain-word"},
		"mysql://u:12345678/abc@h/db":                 {"12345678/abc", "12345678", "abc"},
		"mongodb+srv://u:12345678#abc@h/db":           {"12345678#abc", "12345678", "abc"},
		"amqp://u:12345678?abc@h":                     {"12345678?abc", "12345678", "abc"},
		"http://h:8080/a@b":                           nil,
		"oci://registry:5000/image@sha256":            nil,
		"redis://host:x/1":                            nil,
		"postgres://db/coppice?application_name=a@b":  nil,
		"postgres://u:geheim@db/coppice@x?options=#@": {"geheim"},
	} {
		var got []string
		for _, s := range redact.FromURL("COPPICE_URL", url) {
			if s.Name != "COPPICE_URL" {
				t.Errorf("%s: a secret is named %q", url, s.Name)
			}
			if s.Value != url {
				got = append(got, s.Value)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
		if shown := redact.WithoutPassword(url); len(want) > 0 && strings.Contains(shown, want[0]) {
			t.Errorf("%s is shown as %s", url, shown)
		}
	}
	if got := redact.FromURL("N", "host=h password='a b' user=u"); !reflect.DeepEqual(got, []redact.Secret{{Name: "N", Value: "a b"}}) {
		t.Errorf("settings: %q", got)
	}
}

func TestUnfitSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a-key-in-a-file")
	if err := os.WriteFile(file, []byte("\nvery-secret-1\n  \nshort\r\nvery-secret-2\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"seven77": "less than 8 bytes", "Password": "a common word", "xxxxxxxxxxx": "one character", "12345678": "a short number",
		file: "the name of a file", "MY_TOKEN": "its own name", "redacted: M": "its own name",
		"environ_test.go": "the name of a file", "./environ_test.go": "the name of a file", "environ_test.golang": "",
		"long-enough": "", file + "x": "", "123456789012": "", "": "", "  \n": "",
	} {
		_, refused := redact.New(redact.Secret{Name: "MY_TOKEN", Value: value})
		if want == "" && len(refused) == 0 {
			continue
		}
		if len(refused) != 1 || refused[0].Name != "MY_TOKEN" || !contains(refused[0].Why, want) || contains(refused[0].Why, value) {
			t.Errorf("%q: %v, want %q", value, refused, want)
		}
	}
	listed, err := redact.FromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, refused := redact.New(listed...)
	if len(refused) != 1 || refused[0].Name != "line 4 of the file of secrets" {
		t.Errorf("refused: %v", refused)
	}
	if got := r.String("very-secret-2"); got != "[redacted: line 5 of the file of secrets]" {
		t.Errorf("got %q", got)
	}
	if _, err := redact.FromFile(file + "x"); err == nil {
		t.Error("a file that is not there was read")
	}
}

// Editors of some systems start a text with a mark, or write it in another encoding.
func TestFilesOfSecretsFromEditors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secrets.txt")
	for text, want := range map[string]string{
		"\ufeffvery-secret-1\r\nvery-secret-2\r\n":     "",
		"\xff\xfev\x00e\x00r\x00y\x00-\x00s\x00\n\x00": "expected text in UTF-8, got NUL bytes",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		listed, err := redact.FromFile(file)
		if want != "" {
			if err == nil || !contains(err.Error(), want) {
				t.Errorf("%q: %q, %v, want %s", text, listed, err, want)
			}
			continue
		}
		r, refused := redact.New(listed...)
		if got := r.String("very-secret-1 very-secret-2"); err != nil || refused != nil || contains(got, "very") {
			t.Errorf("%q: %q is left, %v, %v", text, got, refused, err)
		}
	}
}

func contains(text, part string) bool { return part != "" && strings.Contains(text, part) }

// TestWithoutPassword: what is shown of a URL has its secrets in no place.
func TestWithoutPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"coppice.db":                                                              "coppice.db",
		"postgres://coppice:geheim@db/coppice":                                    "postgres://coppice:xxxxx@db/coppice",
		"postgres://db/coppice?sslmode=disable":                                   "postgres://db/coppice?sslmode=disable",
		"postgres:///coppice?host=/run/postgres":                                  "postgres:///coppice?host=/run/postgres",
		"postgres://db/coppice?user=coppice&password=geheim":                      "postgres://db/coppice?user=coppice&password=xxxxx",
		"postgres://db/coppice?Password=geheim&user=x":                            "postgres://db/coppice?Password=xxxxx&user=x",
		"postgres://db/coppice?sslpassword=geheim&sslkey=k.pem&sslmode=verify-ca": "postgres://db/coppice?sslpassword=xxxxx&sslkey=xxxxx&sslmode=verify-ca",
		"postgres://db/coppice?user=x;password=geheim":                            "postgres://db/coppice?user=x;password=xxxxx",
		"postgres://db/coppice?p%61ssword=geheim":                                 "postgres://db/coppice?p%61ssword=xxxxx",
		"postgres://db/coppice?%zz=1&password=ge=heim":                            "postgres://db/coppice?%zz=xxxxx&password=xxxxx",
		"postgres://db:geheim/coppice":                                            "[an address that can't be read]",
	} {
		if got := redact.WithoutPassword(url); got != want {
			t.Errorf("%s is shown as %s, want %s", url, got, want)
		}
	}
}

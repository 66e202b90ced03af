package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/coppice-run/coppice/internal/redact"
)

// ErrNoDatabase is the error of a string that cannot name a database. Its message does not repeat
// the string, which may contain a password anywhere.
var ErrNoDatabase = errors.New("it is neither the path of a SQLite file nor a URL like postgres://user:password@host:5432/coppice")

var (
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://`)
	// keyword matches a setting in the keyword/value format of PostgreSQL's tools.
	keyword = regexp.MustCompile(`(?i)(?:^|\s)(?:host|hostaddr|port|user|password|passfile|dbname|database|service|options|sslmode)\s*=`)
	setting = regexp.MustCompile(`(?:^|\s)\w+\s*=`)
	login   = regexp.MustCompile(`^[^/]+:.+@.`) // before a host
)

// normalizeDatabase gives the name of a database with its scheme in lower case, if it can be one.
func normalizeDatabase(database string) (string, error) {
	prefix := scheme.FindString(database)
	rest := database[len(prefix):]
	switch prefix = strings.ToLower(prefix); {
	case prefix == "postgres://" || prefix == "postgresql://":
		host, path, _ := strings.Cut(rest, "/")
		path, _, _ = strings.Cut(path, "?")
		if !strings.Contains(host, "@") && strings.Contains(path, "@") {
			return "", fmt.Errorf("%w: a / in a user or a password has to be written as %%2F, and an @ in the name of a database as %%40", ErrNoDatabase)
		}
		return prefix + rest, nil
	case prefix != "":
		return "", fmt.Errorf("%w: it has another scheme", ErrNoDatabase)
	case keyword.MatchString(database) || len(setting.FindAllString(database, 2)) == 2:
		return "", fmt.Errorf("%w: it has settings like host=..., which a URL has after a ?", ErrNoDatabase)
	case filepath.Clean(database) == ":memory:":
		return "", fmt.Errorf("%w: SQLite would have it in memory, where each connection has a database of its own", ErrNoDatabase)
	case login.MatchString(database):
		return "", fmt.Errorf("%w: it has a user and a host, but no scheme", ErrNoDatabase)
	}
	return database, nil
}

// malformedURL is the error of a URL that cannot be parsed. It leaves out the parser's message,
// which quotes the URL, but keeps the name of a file that the URL refers to.
func malformedURL(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("%w: %w", ErrNoDatabase, file)
	}
	return fmt.Errorf("%w: in users and passwords a / is written as %%2F, %% as %%25, : as %%3A, @ as %%40; or a setting after the ? is wrong", ErrNoDatabase)
}

// Shared reports whether a database is on a server, so that several replicas can use it.
func Shared(database string) bool { return isPostgres(database) }

func isPostgres(name string) bool {
	prefix := strings.ToLower(scheme.FindString(name))
	return prefix == "postgres://" || prefix == "postgresql://"
}

// displayName is a database's name without secrets.
func displayName(database string) string {
	if !isPostgres(database) {
		return database
	}
	return redact.WithoutPassword(database)
}

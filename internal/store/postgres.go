package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// postgres is a database that several replicas may have open. A pool of connections reads; each
// committer writes through a connection of its own.
type postgres struct {
	config            *pgx.ConnConfig
	reads             *pgxpool.Pool
	coalescer         readCoalescer
	statements        map[string]pgStatement
	nullWhenZero      map[string][]int // see table.nullWhenZeroArgs
	writers           []*pgWriter
	shareFrom         int // from how many rows on columns that are equal in all of them are sent once
	log               *slog.Logger
	loggedUnreachable atomic.Int64 // when an unreachable database was last logged, in ns
}

// reachTimeout is how long an unreachable database is retried, and how long a coalesced read may
// take. stallTimeout is how long anything else may take, except a heartbeat, which is missed soon
// and has heartbeatTimeout.
//
// closeTimeout is how long it may take to close a connection whose caller has given up, or all of
// them.
// suspectAfter is how long such a caller must have waited for the other connections to be dropped
// as well. It is less than a second, because many callers wait for a second.
const (
	reachTimeout     = 5 * time.Second
	stallTimeout     = 30 * time.Second
	heartbeatTimeout = 2 * time.Second
	closeTimeout     = time.Second
	suspectAfter     = time.Second / 2
)

// settings are those of each connection. All statements look rows up by an index, which a plan made
// while the tables were empty must not forget, and they are too short for jit. An index that is
// read entry by entry also learns which entries belong to deleted rows, of which a queue leaves
// many. No plan depends on its arguments, so none is made twice. A replica that freezes in a
// transaction must not lock sessions for ever.
var settings = map[string]string{
	"jit": "off", "plan_cache_mode": "force_generic_plan",
	"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	"idle_in_transaction_session_timeout": "10s",
}

// readOnly sets up a connection of the pool that reads. Queries that are sent together are one
// transaction, and so they see one state of the database. Connections are not opened with these
// settings, because a URL may ask for a server that accepts writes (target_session_attrs=read-write).
const readOnly = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"

// maxReadConns is the default size of the pool, unless the URL has pool_max_conns. It does not
// depend on the processors: most reads take less than a millisecond, and all replicas share the
// server's connections, by default 100.
const maxReadConns = 8

// readURL parses a URL. Its errors do not quote the URL.
func readURL(url string) (*pgxpool.Config, error) {
	said, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, malformedURL(err)
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, malformedURL(err)
	}
	if _, bounded := said.RuntimeParams["pool_max_conns"]; !bounded {
		config.MaxConns = maxReadConns
	}
	return config, nil
}

func openPostgres(ctx context.Context, url string, log *slog.Logger) (*postgres, error) {
	config, err := readURL(url)
	if err != nil {
		return nil, err
	}
	params := config.ConnConfig.RuntimeParams
	maps.Copy(params, settings)
	params["application_name"] = cmp.Or(params["application_name"], "coppice")
	config.ConnConfig.ConnectTimeout, config.ConnConfig.DialFunc = reachTimeout, dial
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error { return prepareConnection(ctx, conn, readOnly) }
	config.ShouldPing = neverPing
	if err := migratePostgres(ctx, config.ConnConfig, log); err != nil {
		return nil, explainRefusal(config.ConnConfig, fmt.Errorf("migrating its schema: %w", err))
	}
	db := &postgres{config: config.ConnConfig.Copy(), log: log, shareFrom: shareFrom}
	db.coalescer.db = db
	if db.reads, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, err
	}
	if err := db.readStatements(ctx); err != nil {
		return nil, errors.Join(err, db.close())
	}
	return db, nil
}

// Error codes that stay the same until somebody changes the server.
const (
	codeNoDatabase    = "3D000"
	codeNoPrivilege   = "42501"
	codeNoSetting     = "42704"
	codeProtocol      = "08P01"
	classUnauthorized = "28"
)

// ErrRefused says that the server refuses to open the database, and will continue to refuse until
// somebody changes something.
var ErrRefused = errors.New("the server refuses it")

// explainRefusal says how to resolve a lasting refusal. It returns other errors unchanged.
func explainRefusal(config *pgx.ConnConfig, err error) error {
	connecting := errors.As(err, new(*pgconn.ConnectError))
	switch code := codeOf(err); {
	case code == codeNoDatabase:
		return fmt.Errorf("%w: there is no such database; make it with: createdb --owner %s %s: %w", ErrRefused, config.User, config.Database, err)
	case code == codeNoPrivilege:
		return fmt.Errorf("%w: user %s may not create tables there; it must own the database and any tables in it: ALTER DATABASE %s OWNER TO %s: %w",
			ErrRefused, config.User, quoted(config.Database), quoted(config.User), err)
	case connecting && code == codeNoSetting:
		return fmt.Errorf("%w: it does not know a setting that the URL has after its ?: %w", ErrRefused, err)
	case connecting && code == codeProtocol && strings.Contains(err.Error(), "startup parameter"):
		return fmt.Errorf("%w: it seems to be a pooler, such as pgbouncer; connect to PostgreSQL itself: %w", ErrRefused, err)
	case strings.HasPrefix(code, classUnauthorized):
		return fmt.Errorf("%w: user %s may not connect; look at the user and the password in the URL, and at the server's pg_hba.conf: %w", ErrRefused, config.User, err)
	}
	return err
}

// quoted is a name quoted for a statement.
func quoted(name string) string {
	return pgx.Identifier{name}.Sanitize() //nolint:misspell // as pgx calls it
}

// prepareConnection lets a connection read and write strings as bytes, and makes sure that its
// commits are durable. It then executes another statement, if there is one.
func prepareConnection(ctx context.Context, conn *pgx.Conn, more string) error {
	registerTypes(conn.TypeMap())
	_, err := conn.Exec(ctx, "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';"+more)
	return err
}

// migratePostgres brings the schema up to date, while no other replica does. A later schema is used
// as it is, because replicas of both releases run while they are replaced.
func migratePostgres(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) error {
	folder, err := fs.Sub(files, "migrations/postgres")
	if err != nil {
		return err
	}
	// It waits for another replica that migrates, and checks once a second.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 300))
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, folder, goose.WithSessionLocker(locker))
	if err == nil {
		_, err = provider.Up(ctx)
	}
	if err == nil {
		var there, known int64
		if there, known, err = provider.GetVersions(ctx); err == nil && there > known {
			log.WarnContext(ctx, "a later release has migrated the schema of the database", "schema", there, "known", known)
		}
	}
	return errors.Join(err, db.Close())
}

// pgStatement is a statement. If it takes many rows at once, types are those of their columns, each
// of which is passed as an array. An array costs as much as a few rows, so single, if set, is the
// statement that writes a few rows one by one.
type pgStatement struct {
	text   string
	types  []string
	single string
	keys   int // the first of its arguments, which are the key of a row; 0: it writes no rows of a table
}

var (
	arrayCast = regexp.MustCompile(`::(\w+)\[\]`)
	parameter = regexp.MustCompile(`\?(\d+)`)
)

// readStatements reads the files of the statements, and generates those that depend on the types of
// a table's columns in the database.
func (db *postgres) readStatements(ctx context.Context) error {
	texts, err := readStatements("postgres", map[string]string{
		"now":  "coalesce(?1, (extract(epoch FROM now()) * 1000000)::bigint)",
		"host": hostWith("strpos"),
		// Each claim is looked up by its key, whatever the planner's estimate of the table's size.
		"claims": "LEFT JOIN LATERAL (SELECT * FROM attempts AS claim WHERE " + claimOfTask + " OFFSET 0) AS claim ON true",
		// An array is not joined, so the tasks of each session are looked up by its key.
		"unlisted sessions": "= ANY (ARRAY(SELECT id FROM sessions WHERE unlisted))",
	}, "") // the planner finds the indexes
	if err != nil {
		return err
	}
	single, keys := map[string]string{}, map[string]int{}
	db.nullWhenZero = map[string][]int{}
	for _, t := range tables {
		types, err := db.columnTypes(ctx, t)
		if err != nil {
			return fmt.Errorf("reading the columns of %s: %w", t.name, err)
		}
		bulk := t.bulkStatements(types)
		maps.Copy(texts, bulk)
		for name := range bulk {
			keys[name] = t.keys
		}
		maps.Copy(single, t.singleRowStatements(types))
		maps.Copy(db.nullWhenZero, t.nullWhenZeroArgs(types))
	}
	db.statements = map[string]pgStatement{}
	for name, text := range texts {
		s := pgStatement{text: parameter.ReplaceAllString(text, "$$$1"), single: single[name], keys: keys[name]}
		for _, cast := range arrayCast.FindAllStringSubmatch(text, -1) {
			s.types = append(s.types, cast[1])
		}
		db.statements[name] = s
	}
	return nil
}

// columnTypes reads the types of a table's columns.
func (db *postgres) columnTypes(ctx context.Context, t table) ([]string, error) {
	rows, err := db.reads.Query(ctx, `SELECT format_type(atttypid, NULL) FROM unnest($1::text[]) WITH ORDINALITY AS c (name, n)
		JOIN pg_attribute ON attrelid = $2::text::regclass AND attname = name ORDER BY n`, t.columns, t.name)
	if err != nil {
		return nil, err
	}
	types, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err == nil && len(types) != len(t.columns) {
		err = errors.New("some are missing")
	}
	return types, err
}

// exclusive is false: other replicas may have the database open.
func (*postgres) exclusive() bool { return false }

func (db *postgres) layout() layout { return layout{db.nullWhenZero, toastChunk} }

func (db *postgres) writer(timeout time.Duration) writer {
	w := &pgWriter{db: db, timeout: timeout, variants: map[string]variants{}}
	db.writers = append(db.writers, w)
	return w
}

// close closes all connections. It does not wait for a server that does not respond: pgx waits for
// that up to 15 seconds.
func (db *postgres) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, w := range db.writers {
		errs = append(errs, w.close(ctx))
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		db.reads.Close()
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	}
	return errors.Join(errs...)
}

func (db *postgres) load(ctx context.Context, lookups ...lookup) error {
	return db.loadWithin(ctx, stallTimeout, lookups...)
}

// loadWithin tries again on another connection when one turns out to be lost, as long as no row was
// read.
func (db *postgres) loadWithin(ctx context.Context, timeout time.Duration, lookups ...lookup) error {
	err := retryTransient(ctx, func() error {
		begun := false
		batch := &pgx.Batch{}
		if err := db.queue(batch, new([]byte), func() { begun = true }, func() {}, lookups); err != nil || batch.Len() == 0 {
			return err
		}
		err := db.roundTrip(ctx, timeout, batch)
		if begun && errors.As(err, &transientError{}) && ctx.Err() == nil {
			return unreachable(err)
		}
		return err
	})
	if errors.Is(err, errUnreachable) {
		db.logUnreachable(ctx, err)
	}
	return err
}

// queue adds queries to a pgx batch, with their arguments in a buffer. begun is called for each
// row, and over when all rows of a query were read.
func (db *postgres) queue(to *pgx.Batch, buffer *[]byte, begun, over func(), lookups []lookup) error {
	for _, l := range lookups {
		s := db.statements[l.name].forRows(len(l.keys))
		args, err := s.arguments(l.keys, buffer)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		for _, a := range args {
			to.Queue(s.text, a...).Query(func(rows pgx.Rows) error {
				err := eachRow(rows, func(row row) error {
					begun()
					return l.scan(row)
				})
				if err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				over()
				return nil
			})
		}
	}
	return nil
}

func eachRow(rows pgx.Rows, scan func(row) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// transientError is an error after which a retry may succeed. Nothing was done.
type transientError struct{ error }

// Unwrap gives the wrapped error.
func (p transientError) Unwrap() error { return p.error }

// retryTransient retries for a while what fails with a transientError.
func retryTransient(ctx context.Context, try func() error) error {
	pauses := &backoff.ExponentialBackOff{
		InitialInterval: 5 * time.Millisecond, RandomizationFactor: 0.5, Multiplier: 2, MaxInterval: 250 * time.Millisecond,
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := try()
		if err != nil && !errors.As(err, &transientError{}) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(reachTimeout))
	if err != nil && ctx.Err() == nil && errors.As(err, &transientError{}) {
		return unreachable(err)
	}
	return err
}

// markTransient wraps an error as transient if the connection is lost, if its server no longer
// accepts writes, or if other transactions were in the way.
func markTransient(conn *pgx.Conn, err error) error {
	if err == nil {
		return nil
	}
	switch codeOf(err) {
	case codeReadOnly, codeSerialize, codeDeadlock:
		return transientError{err}
	}
	if conn.IsClosed() {
		return transientError{err}
	}
	return err
}

// codeOf is the code of the server's error; empty if the error is not the server's.
func codeOf(err error) string {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/transcript"
	"github.com/coppice-run/coppice/internal/tree"
)

// ErrUnavailable says that the database did not take a transaction. Nothing of
// it was stored, unless the words say that its outcome is unknown; the same call
// may succeed later.
var ErrUnavailable = tree.ErrUnavailable

// ErrClosed says that the store is closed.
var ErrClosed = tree.ErrUnavailable.With("the store is closed")

// Config says what a store works with.
type Config struct {
	Database   string           // the path of a SQLite file, or the postgres:// URL of a database
	Replica    string           // who decides
	Clock      func() time.Time // nil: that of the PostgreSQL server; time.Now with SQLite
	NewID      func() [16]byte  // nil: UUIDv7
	MaxBatch   int              // commands in one transaction; 0: DefaultMaxBatch
	Committers int              // with PostgreSQL; 0: as many as the processors here are good for
	Caps       Caps             // which are valid
	// AnnounceOnCommit: while nothing else waits, runs count as announced with the commit that
	// makes them ready. OnCommit is told, and has to see to it.
	AnnounceOnCommit bool
	// Standby gives the slots that wait for runs; nil: there are none. Where runs are not
	// announced Ahead, they are given none.
	Standby func() Standby
	// NewInstallation is the id that a new database gets; empty: one of its own. A
	// database that has another one is not opened.
	NewInstallation string
	// OnCommit is called after each commit, before who has asked for something is answered;
	// it must not wait. Of one session it hears in order. With PostgreSQL it may be called
	// several times at once.
	OnCommit func(Commit)
	// SkipMetrics commits don't tell what is Passed, nor of Verdicts.
	SkipMetrics bool
	Logger      *slog.Logger
}

// DefaultMaxBatch is how many commands one transaction takes at most.
const DefaultMaxBatch = 512

// A store makes one transaction at once for each two processors that the process may use,
// and at most maxCommitters: what sessions share one costs less, and a transaction keeps
// about one processor of ours and one of the database's busy.
const (
	processorsPerCommitter = 2
	maxCommitters          = 4
)

func defaultCommitters() int {
	return min(max(1, runtime.GOMAXPROCS(0)/processorsPerCommitter), maxCommitters)
}

// Commit says what a transaction has changed.
type Commit struct {
	Sessions      []SessionUpdate
	Ready         []Ready                 // runs that wait for a worker since
	Revoked       []tree.Revoked          // attempts that were ended from outside
	Released      []tree.ReleasedCommands // runs that are to let commands go on in the background
	Room          bool                    // a session where runs wait for a worker has room for one more
	Phases        []CompletedPhase        // parts of runs' lives that are over
	SpawnOutcomes []tree.SpawnOutcome     // what became of wishes for children
	Costs         []ModelCost             // what answers of models have cost that were recorded

	Commands int           // how many it carried out or refused
	Refused  []string      // the reasons of what it refused
	Took     time.Duration // from its beginning until it was stored
}

// CompletedPhase is a part of the life of a run of a session that is over.
type CompletedPhase struct {
	Session tree.SessionID
	*tree.CompletedPhase
}

// ModelCost is what one answer of a model has cost.
type ModelCost struct {
	Model  string // as the answer names it
	Micros int64  // millionths of a US dollar
}

// SessionUpdate is a session that has new events.
type SessionUpdate struct {
	Session   tree.SessionID
	LastSeq   int64
	Events    [][]byte      // the new ones, as they are stored; the last is LastSeq
	Ended     []tree.TaskID // tasks of which a run has ended
	RootStart *RootStart    // the session is new, and its root's first run has begun
	// EndOf says how, of one that is not under way again; else nil. It is not to be called after
	// OnCommit.
	EndOf func(tree.TaskID) *RunEnd
}

// RootStart is how far the root of a new session is.
type RootStart struct {
	Tenant string
	TaskStatus
}

// Store is an open database. Its methods may be called at once.
type Store struct {
	Config
	db                 database
	scans              scanLimiter
	installation       string
	committers         []*committer  // of commands
	stepCommitter      *committer    // of the store's own steps
	heartbeatCommitter *committer    // of heartbeats
	ended              chan struct{} // closed when Run has ended: what is queued then stays so

	definitions   *definitionCache
	window        announceWindow
	virtualTime   atomic.Int64     // how far turns have come, as far as any committer knows
	allReadPacked atomic.Bool      // all replicas can read what is packed
	held          *transcript.Held // of claims
}

// Open opens the database and brings it up to date. A SQLite file it locks against
// other processes.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Database == "" {
		return nil, errors.New("store: a database is required")
	}
	if c.NewID == nil {
		c.NewID = newUUID
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = DefaultMaxBatch
	}
	if c.Committers == 0 {
		c.Committers = defaultCommitters()
	}
	if c.OnCommit == nil {
		c.OnCommit = func(Commit) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.Database, err = normalizeDatabase(c.Database); err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	db, err := openDatabase(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", displayName(c.Database), err)
	}
	if db.exclusive() {
		c.Committers = 1
		if c.Clock == nil {
			c.Clock = time.Now
		}
	}
	s := &Store{Config: c, db: db, scans: newScanLimiter(db), ended: make(chan struct{}), held: transcript.NewHeld(), definitions: newDefinitionCache()}
	s.window.disabled = !c.AnnounceOnCommit || c.Caps != (Caps{})
	for range c.Committers {
		s.committers = append(s.committers, s.newCommitter(c.MaxBatch, stallTimeout))
	}
	s.stepCommitter, s.heartbeatCommitter = s.committers[0], s.committers[0]
	if !db.exclusive() {
		// Each has a transaction to itself, which holds no session while it waits. A heartbeat
		// must not wait for any other: a replica that is late is taken to be gone.
		s.stepCommitter, s.heartbeatCommitter = s.newCommitter(1, stallTimeout), s.newCommitter(1, heartbeatTimeout)
	}
	if err := s.loadInstallation(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", displayName(c.Database), err), db.close())
	}
	return s, nil
}

func openDatabase(ctx context.Context, c Config) (database, error) {
	if isPostgres(c.Database) {
		return openPostgres(ctx, c.Database, c.Logger)
	}
	return openSQLite(ctx, c.Database)
}

// loadInstallation reads or makes the installation id.
func (s *Store) loadInstallation(ctx context.Context) error {
	err := s.stepCommitter.writer.transact(ctx, func(tx transaction) error {
		known := false
		installation := lookup{"installation", [][]any{{}}, func(row row) error {
			known = true
			return row.Scan(&s.installation)
		}}
		if err := tx.load(ctx, installation); err != nil || known {
			return err
		}
		if err := tx.save(ctx, "installation_add", []any{cmp.Or(s.NewInstallation, uuid.NewString())}); err != nil {
			return err
		}
		return tx.load(ctx, installation)
	})
	if err != nil {
		return fmt.Errorf("taking it over: %w", err)
	}
	if s.NewInstallation != "" && s.NewInstallation != s.installation {
		return fmt.Errorf("it is the database of the installation %s, not %s", s.installation, s.NewInstallation)
	}
	return nil
}

// clock is what statements get for the time: NULL where the database knows it.
func (s *Store) clock() any {
	if s.Clock == nil {
		return nil
	}
	return s.Clock().UnixMicro()
}

func newUUID() [16]byte { return uuid.Must(uuid.NewV7()) }

// Installation is the id of this database, made when it was.
func (s *Store) Installation() string { return s.installation }

// Exclusive reports whether no other replica can work on the database.
func (s *Store) Exclusive() bool { return s.db.exclusive() }

// Close closes the database. Run has to have ended.
func (s *Store) Close() error { return s.db.close() }

// Run commits what is queued until ctx ends; what is queued then is refused. It
// can run only once.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.ended)
	var committing sync.WaitGroup
	for _, c := range s.committers {
		committing.Go(func() { c.run(ctx) })
	}
	if !s.Exclusive() {
		committing.Go(func() { s.stepCommitter.run(ctx) })
		committing.Go(func() { s.heartbeatCommitter.run(ctx) })
	}
	committing.Wait()
	return nil
}

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

// ErrUnavailable says that the database did not commit a transaction. Nothing of it was stored,
// unless the message says that its outcome is unknown. The same call may succeed later.
var ErrUnavailable = tree.ErrUnavailable

// ErrClosed is returned after Run has ended.
var ErrClosed = tree.ErrUnavailable.With("the store is closed")

// Config is the configuration of a Store. Only Database is required.
type Config struct {
	Database   string           // the path of a SQLite file, or the postgres:// URL of a database
	Replica    string           // the id of this replica, passed to decisions
	Clock      func() time.Time // nil: the clock of the PostgreSQL server; time.Now with SQLite
	NewID      func() [16]byte  // nil: UUIDv7, with the time of the decision
	MaxBatch   int              // commands per transaction; 0: DefaultMaxBatch
	Committers int              // PostgreSQL only; 0: by the number of processors
	Caps       Caps             // have to be valid
	// AnnounceOnCommit lets a commit count the runs that it makes ready as announced, while no
	// other run waits. OnCommit gets them and has to publish them.
	AnnounceOnCommit bool
	// Standby gives the slots that stand by; nil: there are none. Without AnnounceOnCommit they get
	// no run.
	Standby func() Standby
	// NewInstallation is the id that a new database gets; empty: a generated one. A database with
	// another id is not opened.
	NewInstallation string
	// OnCommit is called after each commit, before its callers are answered (but see EarlyRuns). It
	// must not block. The commits of one session arrive in order. With PostgreSQL several calls may
	// run concurrently.
	OnCommit func(Commit)
	// EarlyRuns lets a run that is given to a worker of this process (Offer.Local) begin while
	// SQLite's log is synced. Everything else waits for that: the answers of commands, OnCommit, and
	// what is read.
	EarlyRuns bool
	// SkipMetrics leaves Phases and SpawnOutcomes of a Commit empty.
	SkipMetrics bool
	Logger      *slog.Logger
}

// DefaultMaxBatch is the default limit of commands in one transaction.
const DefaultMaxBatch = 512

// A store runs one concurrent transaction for each two processors of the process, and at most
// maxCommitters. Sessions that share a transaction cost less, and one transaction keeps about one
// processor of ours and one of the database's busy.
const (
	processorsPerCommitter = 2
	maxCommitters          = 4
)

func defaultCommitters() int {
	return min(max(1, runtime.GOMAXPROCS(0)/processorsPerCommitter), maxCommitters)
}

// Commit describes what a transaction has changed.
type Commit struct {
	Sessions      []SessionUpdate
	Ready         []Ready                 // runs that now wait for a worker
	Revoked       []tree.Revoked          // attempts that were ended from outside
	Released      []tree.ReleasedCommands // runs whose workers have to move commands to the background
	Room          bool                    // a session with waiting runs has room for one more
	Phases        []CompletedPhase        // phases of runs that are over
	SpawnOutcomes []tree.SpawnOutcome     // what became of requests for children
	Costs         []ModelCost             // costs of the recorded model answers

	Commands int           // carried out or refused
	Refused  []string      // the reasons of the refusals
	Took     time.Duration // from the start of the transaction until it was stored
}

// CompletedPhase is a phase in the life of a run that is over, with its session.
type CompletedPhase struct {
	Session tree.SessionID
	*tree.CompletedPhase
}

// ModelCost is the cost of one answer of a model.
type ModelCost struct {
	Model  string // as the answer names it
	Micros int64  // millionths of a US dollar
}

// SessionUpdate is a session that has new events.
type SessionUpdate struct {
	Session   tree.SessionID
	LastSeq   int64
	Events    [][]byte      // the new events, as stored; the last one has LastSeq
	Ended     []tree.TaskID // tasks whose run has ended
	Closed    bool          // the session is closed: it starts no more runs
	RootStart *RootStart    // set if the session is new and its root's first run has started
	// EndOf gives how the run of an ended task ended; nil if the task has started another run. It
	// must not be called after OnCommit has returned.
	EndOf func(tree.TaskID) *RunEnd
}

// RootStart is the state of the root of a new session.
type RootStart struct {
	Tenant string
	TaskStatus
}

// Store is an open database. Its methods are safe for concurrent use.
type Store struct {
	Config
	db                 database
	scans              scanLimiter
	installation       string
	committers         []*committer            // of commands
	stepCommitter      *committer              // of the store's own writes
	heartbeatCommitter *committer              // of heartbeats
	ended              chan struct{}           // closed when Run has ended; queued commands are not taken after that
	fail               context.CancelCauseFunc // ends Run

	definitions   *definitionCache
	ids           *idSource
	window        announceWindow
	unlists       func(runs int) bool // unlistsMany, unless a test says something else
	mirror        *mirror
	virtualTime   atomic.Int64      // the latest virtual time of the fair queue that any committer knows
	allReadPacked atomic.Bool       // all replicas can read packed rows
	held          *transcript.Cache // transcripts of claimed runs
}

// Open opens the database and brings its schema up to date. A SQLite file is locked against other
// processes.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Database == "" {
		return nil, errors.New("store: a database is required")
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
	s := &Store{Config: c, db: db, scans: newScanLimiter(db), ended: make(chan struct{}), held: transcript.NewCache(), definitions: newDefinitionCache(), ids: newIDSource()}
	s.window.disabled = !c.AnnounceOnCommit || c.Caps != (Caps{})
	s.mirror, s.unlists = newMirror(db.exclusive(), c.Caps != (Caps{})), s.unlistsMany
	for range c.Committers {
		s.committers = append(s.committers, s.newCommitter(c.MaxBatch, stallTimeout))
	}
	s.stepCommitter, s.heartbeatCommitter = s.committers[0], s.committers[0]
	if !db.exclusive() {
		// Each of their transactions has one step, and locks no session while it waits. A heartbeat
		// must not wait for other transactions: a replica whose heartbeat is late is taken for dead.
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
	return openSQLite(ctx, c.Database, c.EarlyRuns, c.Logger)
}

// ErrOtherInstallation says that the database belongs to another installation than the given one.
var ErrOtherInstallation = errors.New("it belongs to another installation")

// loadInstallation reads the id of the installation, and creates it in a new database.
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
	}, func() {})
	if err != nil {
		return fmt.Errorf("taking it over: %w", err)
	}
	if s.NewInstallation != "" && s.NewInstallation != s.installation {
		return fmt.Errorf("%w: it is the database of the installation %s, not %s", ErrOtherInstallation, s.installation, s.NewInstallation)
	}
	return nil
}

// clock gives the time argument of a statement: NULL if the database's own clock is used.
func (s *Store) clock() any {
	if s.Clock == nil {
		return nil
	}
	return s.Clock().UnixMicro()
}

// Installation is the id of this database. It was created with the database.
func (s *Store) Installation() string { return s.installation }

// Exclusive reports whether no other replica can use the database.
func (s *Store) Exclusive() bool { return s.db.exclusive() }

// Close closes the database. It must be called after Run has ended.
func (s *Store) Close() error { return s.db.close() }

// finishTimeout is how long a transaction may go on that is being stored when [Store.Run] has to end.
// It needs longer only if the database does not respond.
const finishTimeout = time.Second

// Run commits what is queued until ctx ends, or until SQLite's log can't be synced, of which it
// returns the error. Commands that are still queued then are refused. Run can be called only once.
func (s *Store) Run(ctx context.Context) error {
	defer close(s.ended)
	ctx, s.fail = context.WithCancelCause(ctx)
	defer s.fail(nil)
	storing, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(finishTimeout, abandon) })()
	var committing sync.WaitGroup
	for _, c := range s.committers {
		committing.Go(func() { c.run(ctx, storing) })
	}
	if !s.Exclusive() {
		committing.Go(func() { s.stepCommitter.run(ctx, storing) })
		committing.Go(func() { s.heartbeatCommitter.run(ctx, storing) })
	}
	committing.Wait()
	if err := context.Cause(ctx); errors.Is(err, errNotSynced) {
		return err
	}
	return nil
}

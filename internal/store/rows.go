package store

import (
	"database/sql/driver"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/coppice-run/coppice/internal/tree"
)

// table is a table whose rows are Go values: its name and columns, in the order in which the
// functions below list them. The first columns are the key; some after them never change.
type table struct {
	name         string
	keys         int // number of key columns
	fixed        int // number of columns that never change, including the key
	columns      []string
	updates      []update
	usuallyEmpty []int          // columns that are empty in most new rows
	nullable     []int          // those of them that may be NULL
	narrow       []narrowInsert // the narrowest first
	emptyRow     []any          // a row without any values
	drops        bool           // rows are deleted one by one, not only with their sessions
}

// newTable reads a list of columns. A "|" ends the columns of an update. Columns with a "*" or a
// "-" are empty in most new rows; those with a "*" may be NULL.
func newTable(name string, keys, fixed int, columns string) table {
	t := table{name: name, keys: keys, fixed: fixed}
	for _, c := range strings.Fields(columns) {
		if c == "|" {
			t.updates = append(t.updates, update{fmt.Sprintf("set_%s_%d", name, len(t.updates)+1), len(t.columns)})
			continue
		}
		name := strings.TrimRight(c, "*-")
		if name != c {
			t.usuallyEmpty = append(t.usuallyEmpty, len(t.columns))
		}
		if strings.HasSuffix(c, "*") {
			t.nullable = append(t.nullable, len(t.columns))
		}
		t.columns = append(t.columns, name)
	}
	return t
}

// dropping gives a table whose rows can be deleted one by one.
func (t table) dropping() table {
	t.drops = true
	return t
}

const callKeyColumns = "session task message block "

// sessionTable lists first the columns that change with each commit.
var sessionTable = newTable("sessions", 1, 6, "id tenant agent root metadata- limits "+
	"next_seq total pending running waiting- shells- "+
	"input_tokens- output_tokens- cache_read_tokens- cache_write_tokens- cost_micros- priced_tokens- model_calls- updated_at fair_tag unlisted- version | "+
	"title created_at current_task- asking- denied_calls- grants- closed_at- deleted_at- workspace- "+
	"budget_tokens- budget_cost- budget_calls- reckoned_tokens- reckoned_cost- max_running on_approval-").withEmptyRow(sessionRow(&tree.Session{}, &sessionExtras{}))

// taskTable lists first the columns that change with each claim, then those that change with an
// answer that ends a run, then others that change with a worker's requests.
var taskTable = newTable("tasks", 2, 18, "session id parent kind branch depth agent agent_version model description "+
	"created_at fail_on_interrupt* base_kind* base_task* base_message* base_block* model_provider model_name "+
	"state started_at* epoch nonce* attach* last_seq* replica* worker* claimed_at* moved_at | "+
	"iterations* run_input_tokens* run_output_tokens* run_cost_micros* run_priced_tokens* answer* ended_at* "+
	"next_ordinal head last_answer* input_tokens* output_tokens* cost_micros* priced_tokens* all_iterations* | "+
	"run_cache_read_tokens* run_cache_write_tokens* run_tools* wait_kind* wait_total* wait_met* open_message* open_calls* "+
	"children* cache_read_tokens* cache_write_tokens* tool_uses* activity* recent* | "+
	"run reason* detail* caller call_message call_block background accepted_at wait_failed* priority deadline* ran* reported_at* strikes* inbox* "+
	"live_background* watchers compacted* start_hooked* stop_hooked* on_complete* "+
	"permissions origin* authority source* asking* told* output* release_message* trace trace_parent trace_flags worktrees* "+
	"max_iterations timeout*").withEmptyRow(taskRow(&tree.Task{}))

// runTable holds the runs that a task has had before its current one.
var runTable = newTable("runs", 3, 18, "session task run state reason* detail* answer "+
	"input_tokens output_tokens cache_read_tokens* cache_write_tokens* cost_micros* priced_tokens* "+
	"tool_uses* iterations accepted_at started_at ended_at")

// tables are the tables whose rows follow from what the core changes.
var tables = []table{
	sessionTable,
	taskTable,
	runTable,
	newTable("messages", 3, 11, "session task ordinal id parent run role news_task news_run* created_at body"),
	newTable("calls", 4, 5, callKeyColumns+"tool state child child_run* text* is_error by_outcome approval join_policy* reads upto* packed"),
	newTable("events", 2, 3, "session seq data"),
	newTable("inbox", 2, 8, "session id task news_task news_run queued_at body source").dropping(),
	newTable("waits", 6, 6, "session target target_run task message block").dropping(),
	newTable("timers", 4, 4, callKeyColumns+"due").dropping(),
	newTable("ready", 2, 2, "session task epoch priority fair_tag at announced_until tenant replica precedence").dropping(),
	newTable("attempts", 2, 2, "session task epoch attach replica worker at nonce").dropping(),
	newTable("callbacks", 3, 4, "session task run url tries due").dropping(),
	newTable("requests", 2, 4, "session key hash answer"),
	newTable("approvals", 2, 12, "session id task run message block tool argument argument_cut rules asked_at due "+
		"state for_session note decided_at url tries call_due"),
}

// sessionExtras are the columns of a session's row that the core does not know.
type sessionExtras struct {
	maxRunning int   // the session's current cap on running tasks
	fairTag    int64 // of its last ready run
	unlisted   bool  // some of its ready runs have no row of ready; see unlisted.go
	version    int64
}

func sessionRow(s *tree.Session, b *sessionExtras) []any { return appendSessionRow(nil, s, b) }

func appendSessionRow(to []any, s *tree.Session, b *sessionExtras) []any {
	return append(to,
		idColumn(&s.ID), &s.Tenant, &s.Agent, idColumn(&s.Root),
		jsonColumn{&s.Metadata}, jsonColumn{&s.Limits},
		&s.NextSeq, &s.Total, &s.Pending, &s.Running, &s.Waiting, &s.Shells,
		&s.Usage.Input, &s.Usage.Output, &s.Usage.CacheRead, &s.Usage.CacheWrite, &s.Usage.Cost, &s.Usage.Priced, &s.ModelCalls,
		timeColumn{&s.UpdatedAt}, &b.fairTag, &b.unlisted, &b.version,
		&s.Title, timeColumn{&s.CreatedAt}, idColumn(&s.Current), &s.Asking, &s.DeniedCalls, jsonColumn{&s.Grants},
		timeColumn{&s.ClosedAt}, timeColumn{&s.DeletedAt}, &s.Workspace, &s.Budget.Tokens, &s.Budget.Cost, &s.Budget.ModelCalls,
		&s.CallEstimate.Tokens, &s.CallEstimate.Cost, &b.maxRunning, &s.OnApproval,
	)
}

func taskRow(t *tree.Task) []any { return appendTaskRow(nil, t) }

func appendTaskRow(to []any, t *tree.Task) []any {
	return append(to,
		idColumn(&t.Session), idColumn(&t.ID), idColumn(&t.Parent), &t.Kind, &t.Branch, &t.Depth,
		&t.Agent, &t.AgentVersion, &t.Model, &t.Description, timeColumn{&t.CreatedAt},
		&t.FailOnInterrupt, &t.Base.Kind, idColumn(&t.Base.Task), &t.Base.Message, &t.Base.Block,
		&t.Pin.Provider, &t.Pin.Name,
		&t.State, timeColumn{&t.StartedAt}, &t.Epoch, bitsColumn{&t.Nonce}, &t.Attach, &t.LastSeq,
		&t.Replica, &t.Worker, timeColumn{&t.ClaimedAt}, timeColumn{&t.MovedAt},
		&t.Iterations, &t.RunUsage.Input, &t.RunUsage.Output, &t.RunUsage.Cost, &t.RunUsage.Priced, &t.Answer, timeColumn{&t.EndedAt},
		&t.NextOrdinal, idColumn(&t.Head), &t.LastAnswer, &t.Usage.Input, &t.Usage.Output, &t.Usage.Cost, &t.Usage.Priced, &t.AllIterations,
		&t.RunUsage.CacheRead, &t.RunUsage.CacheWrite, &t.RunTools, &t.Wait.Kind, &t.Wait.Total, &t.Wait.Met, &t.OpenMessage, &t.OpenCalls,
		&t.Children, &t.Usage.CacheRead, &t.Usage.CacheWrite, &t.ToolUses, &t.Activity, &t.Recent,
		&t.Run, &t.Reason, &t.Detail, idColumn(&t.Caller), &t.Call.Message, &t.Call.Block, &t.Background,
		timeColumn{&t.AcceptedAt}, &t.Wait.Failed,
		&t.Priority, timeColumn{&t.Deadline}, durationColumn{&t.Ran}, timeColumn{&t.ReportedAt}, &t.Strikes, &t.Inbox,
		&t.LiveBackground, &t.Watchers, &t.Compacted, &t.StartHooked, &t.StopHooked, &t.OnComplete,
		(*string)(&t.Permissions), &t.Origin, (*string)(&t.Authority), &t.Source, &t.Asking, &t.LastProgress, &t.Output, &t.Release,
		id16{(*[16]byte)(&t.Trace.ID)}, bitsColumn{(*uint64)(&t.Trace.Parent)}, &t.Trace.Flags, &t.Worktrees,
		&t.MaxIterations, durationColumn{&t.Timeout},
	)
}

func runRow(session *tree.SessionID, r *tree.Run) []any {
	return []any{
		idColumn(session), idColumn(&r.Task), &r.Run, &r.State, &r.Reason, &r.Detail, &r.Answer,
		&r.Usage.Input, &r.Usage.Output, &r.Usage.CacheRead, &r.Usage.CacheWrite, &r.Usage.Cost, &r.Usage.Priced,
		&r.ToolUses, &r.Iterations,
		timeColumn{&r.AcceptedAt}, timeColumn{&r.StartedAt}, timeColumn{&r.EndedAt},
	}
}

func messageRow(session *tree.SessionID, m *tree.Message, body *[]byte) []any {
	return []any{
		idColumn(session), idColumn(&m.Task), &m.Ordinal, idColumn(&m.ID), idColumn(&m.Parent), &m.Run, &m.Role,
		idColumn(&m.News.Task), &m.News.Run, timeColumn{&m.CreatedAt}, bodyColumn{body},
	}
}

func callRow(session *tree.SessionID, c *tree.Call) []any {
	return []any{
		idColumn(session), idColumn(&c.Task), &c.Ref.Message, &c.Ref.Block, &c.Tool, &c.State,
		idColumn(&c.Child.Task), &c.Child.Run, &c.Text, &c.IsError, &c.ByOutcome, idColumn(&c.Approval),
		&c.Join, &c.Reads, &c.Upto, packedColumn{&c.Text},
	}
}

func inboxRow(session *tree.SessionID, e *tree.InboxEntry, body *[]byte) []any {
	return []any{
		idColumn(session), idColumn(&e.ID), idColumn(&e.Task), idColumn(&e.News.Task), &e.News.Run,
		timeColumn{&e.QueuedAt}, body, &e.Source,
	}
}

func waitRow(session *tree.SessionID, w *tree.WaitRow) []any {
	return []any{
		idColumn(session), idColumn(&w.Target.Task), &w.Target.Run, idColumn(&w.Task), &w.Ref.Message, &w.Ref.Block,
	}
}

// Timer is a timer with its session.
type Timer struct {
	Session tree.SessionID
	tree.Timer
}

func timerRow(t *Timer) []any {
	return []any{
		idColumn(&t.Session), idColumn(&t.Task), &t.Ref.Message, &t.Ref.Block, timeColumn{&t.Due},
	}
}

// Ready is a ready row with its session.
type Ready struct {
	Session tree.SessionID
	tree.Ready
	Again             bool // it was announced before, and not claimed in time
	AnnouncedOnCommit bool // it counts as announced since the commit that made it ready

	Replica string // the replica that made it ready; empty: unknown

	tenant         string
	fairTag        int64
	announcedUntil int64
	unlisted       bool // it has no row
}

func readyRow(r *Ready) []any {
	return []any{
		idColumn(&r.Session), idColumn(&r.Task), &r.Epoch, &r.Priority, &r.fairTag,
		timeColumn{&r.At}, &r.announcedUntil, &r.tenant, &r.Replica, &r.Precedence,
	}
}

// Attempt is an attempt with its session.
type Attempt struct {
	Session tree.SessionID
	tree.Attempt
}

func attemptRow(a *Attempt) []any {
	return []any{
		idColumn(&a.Session), idColumn(&a.Task), &a.Epoch, &a.Attach, &a.Replica, &a.Worker, timeColumn{&a.At}, bitsColumn{&a.Nonce},
	}
}

// The types below convert values to and from columns. They are used both as arguments of
// statements and as destinations of scans.

// id16 is an id as a BLOB of 16 bytes; the zero id is NULL.
type id16 struct{ id *[16]byte }

func idColumn[Of any](id *tree.ID[Of]) id16 { return id16{(*[16]byte)(id)} }

// Value implements driver.Valuer.
func (c id16) Value() (driver.Value, error) {
	if *c.id == [16]byte{} {
		return nil, nil
	}
	return c.id[:], nil
}

// MarshalText gives the bytes in hexadecimal.
func (c id16) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, c.id[:]), nil }

// Scan implements sql.Scanner.
func (c id16) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		*c.id = [16]byte{}
		return nil
	case []byte:
		if len(src) == len(c.id) {
			copy(c.id[:], src)
			return nil
		}
	}
	return fmt.Errorf("an id is stored as %T", src)
}

// timeColumn is a time as microseconds since 1970; the zero time is NULL.
type timeColumn struct{ time *time.Time }

// Value implements driver.Valuer.
func (c timeColumn) Value() (driver.Value, error) {
	if c.time.IsZero() {
		return nil, nil
	}
	return c.time.UnixMicro(), nil
}

// Scan implements sql.Scanner.
func (c timeColumn) Scan(src any) error {
	switch src := src.(type) {
	case nil:
		*c.time = time.Time{}
	case int64:
		*c.time = time.UnixMicro(src).UTC()
	default:
		return fmt.Errorf("a time is stored as %T", src)
	}
	return nil
}

// durationColumn is a duration as microseconds.
type durationColumn struct{ duration *time.Duration }

// Value implements driver.Valuer.
func (c durationColumn) Value() (driver.Value, error) { return c.duration.Microseconds(), nil }

// Scan implements sql.Scanner; NULL is 0.
func (c durationColumn) Scan(src any) error {
	n, ok := src.(int64)
	if !ok && src != nil {
		return fmt.Errorf("a duration is stored as %T", src)
	}
	*c.duration = time.Duration(n) * time.Microsecond
	return nil
}

// bitsColumn is 64 bits as a signed integer.
type bitsColumn struct{ bits *uint64 }

// Value implements driver.Valuer.
func (c bitsColumn) Value() (driver.Value, error) { return int64(*c.bits), nil }

// Scan implements sql.Scanner; NULL is 0.
func (c bitsColumn) Scan(src any) error {
	n, ok := src.(int64)
	if !ok && src != nil {
		return fmt.Errorf("bits are stored as %T", src)
	}
	*c.bits = uint64(n)
	return nil
}

// jsonColumn is a value as JSON text.
type jsonColumn struct{ value any }

// Value implements driver.Valuer.
func (c jsonColumn) Value() (driver.Value, error) {
	text, err := json.Marshal(c.value)
	return string(text), err
}

// Scan implements sql.Scanner.
func (c jsonColumn) Scan(src any) error {
	switch src := src.(type) {
	case string:
		return json.Unmarshal([]byte(src), c.value)
	case []byte:
		return json.Unmarshal(src, c.value)
	}
	return fmt.Errorf("JSON is stored as %T", src)
}

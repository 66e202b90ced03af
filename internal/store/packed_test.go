package store_test

import (
	"context"
	"database/sql"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// result is one that is worth packing, and is long even then.
var result = strings.Repeat("a line of a file that an agent has read\n", 300) + base64.StdEncoding.EncodeToString(store.Noise(4000))

// has opens a session whose root reads files, and gives what tells of its rows.
func has(t *testing.T, db *store.Store, calls int) (tree.SessionID, tree.TaskID) {
	t.Helper()
	do := func(id tree.SessionID, c tree.Command) tree.Answer {
		t.Helper()
		answer, err := db.Update(t.Context(), id, c)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	id := newSession()
	create := open(id)
	create.Message = []tree.Block{tree.Text{Text: result}}
	root := do(id, create).(tree.Created).Root
	from := tree.From{Task: root, Token: tree.Token{Epoch: 1, Nonce: 1}, Attach: 1, Seq: 1}
	do(id, tree.Claim{Task: root, Token: from.Token, Worker: "w"})
	do(id, tree.AppendAnswer{From: from, Message: asks(calls)})
	for n := range calls {
		from.Seq++
		do(id, tree.CloseCall{From: from, Block: n, Text: result})
	}
	return id, root
}

// reads checks what a store reads of that.
func reads(t *testing.T, db *store.Store, id tree.SessionID, root tree.TaskID, calls int) {
	t.Helper()
	messages, err := db.Transcript(t.Context(), id, root, 0, 0)
	if err != nil || len(messages) < 3 || messages[0].Text() != result || len(messages[2].Blocks) != calls {
		t.Fatalf("the transcript has %d messages, %v", len(messages), err)
	}
	for _, block := range messages[2].Blocks {
		if text := block.(tree.ToolResult).Text; text != result {
			t.Errorf("a result is %.100q", text)
		}
	}
}

// rows counts what of a session's is packed and how many bytes its texts have.
func rows(t *testing.T, db *sql.DB, id tree.SessionID) (packed, bytes int) {
	t.Helper()
	const of = `FROM calls WHERE session = $1`
	err := db.QueryRowContext(t.Context(), `SELECT count(packed), sum(length(text) + coalesce(length(packed), 0)) `+of, id[:]).
		Scan(&packed, &bytes)
	if err != nil {
		t.Fatal(err)
	}
	var body int
	err = db.QueryRowContext(t.Context(), `SELECT max(length(body)) FROM messages WHERE session = $1`, id[:]).Scan(&body)
	if err != nil {
		t.Fatal(err)
	}
	if small := body < len(result)/2; small != (packed > 0) {
		t.Errorf("%d results are packed, and the longest message has %d bytes", packed, body)
	}
	var logRows, events int
	if err = db.QueryRowContext(t.Context(), `SELECT count(*), max(seq) FROM events WHERE session = $1`, id[:]).Scan(&logRows, &events); err != nil {
		t.Fatal(err)
	}
	if shared := logRows < events; shared != (packed > 0) {
		t.Errorf("%d results are packed, and %d events have %d rows", packed, events, logRows)
	}
	return packed, bytes
}

// blanks counts the rows of a session's that have NULL instead of zero.
func blanks(t *testing.T, db *sql.DB, id tree.SessionID) (n int) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM tasks WHERE session = $1 AND timeout IS NULL)
		+ (SELECT count(*) FROM messages WHERE session = $1 AND news_run IS NULL) + (SELECT count(*) FROM calls WHERE session = $1 AND upto IS NULL)`, id[:]).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// claimIn is the state in the row of a task whose run a worker has just claimed.
func claimIn(t *testing.T, raw *sql.DB, db *store.Store) (state tree.State) {
	t.Helper()
	id, root := waiting(t, db)
	if _, err := db.Update(t.Context(), id, tree.Claim{Task: root, Token: tree.Token{Epoch: 1, Nonce: 7}, Worker: "w"}); err != nil {
		t.Fatal(err)
	}
	if err := raw.QueryRowContext(t.Context(), "SELECT state FROM tasks WHERE session = $1", id[:]).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

// settledIn is the state in the row of a call whose child has just ended.
func settledIn(t *testing.T, raw *sql.DB, db *store.Store) (state tree.CallState) {
	t.Helper()
	a := &attempt{db: db, session: newSession()}
	create := open(a.session)
	create.Message = says("begin").Blocks
	root, token := a.do(t, create).(tree.Created).Root, tree.Token{Epoch: 1, Nonce: 1}
	a.from = tree.From{Task: root, Token: token, Attach: 1}
	a.do(t, tree.Claim{Task: root, Token: token, Worker: "w"})
	a.haveChildren(t, 1)
	if err := raw.QueryRowContext(t.Context(), "SELECT state FROM calls WHERE session = $1", a.session[:]).Scan(&state); err != nil {
		t.Fatal(err)
	}
	return state
}

// TestPackedRows: a file is its process's alone, so what is large is packed from the
// first.
func TestPackedRows(t *testing.T) {
	t.Parallel()
	c := fresh(t)
	db := running(t, c)
	id, root := has(t, db, 3)
	file, err := sql.Open("sqlite", c.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if packed, bytes := rows(t, file, id); packed != 3 || bytes > 3*len(result)/4 {
		t.Errorf("%d of 3 results are packed, and have %d bytes", packed, bytes)
	}
	if state := claimIn(t, file, db); state != tree.StatePending {
		t.Errorf("a claim has set the state in the row of its task to %v", state)
	}
	if state := settledIn(t, file, db); state != tree.CallWaiting {
		t.Errorf("the end of a child has set the state in the row of its call to %v", state)
	}
	reads(t, db, id, root, 3)
}

// TestPackedBesideTheReleaseBefore: as long as a replica is known of that would not read
// it, nothing is packed.
func TestPackedBesideTheReleaseBefore(t *testing.T) {
	t.Parallel()
	url := pgtest.Start(t).Database(t)
	dbs := replicas(t, url, 2)
	raw, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	exec := func(statement string) {
		t.Helper()
		if _, err := raw.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Fatal(err)
		}
	}
	older := uuid.NewString()
	for _, step := range []struct {
		when   string
		first  func()
		packed int
	}{
		{"nobody has said what it reads", func() {}, 0},
		{"one of the release before is there", func() {
			// It knows of no other column.
			exec(`INSERT INTO replicas (id, beat, slots) VALUES ('` + older + `', (extract(epoch FROM now()) * 1000000)::bigint, 1)`)
		}, 0},
		{"it is silent", func() { exec(`UPDATE replicas SET beat = beat - 60000000 WHERE id = '` + older + `'`) }, 0},
		{"it is forgotten", func() { exec(`UPDATE replicas SET beat = beat - 3600000000 WHERE id = '` + older + `'`) }, 2},
		{"one of the release before comes back", func() {
			exec(`INSERT INTO replicas (id, beat) VALUES ('` + older + `', (extract(epoch FROM now()) * 1000000)::bigint)`)
		}, 0},
	} {
		step.first()
		if step.when != "nobody has said what it reads" {
			if err := dbs[0].ForgetSilentReplicas(t.Context()); err != nil {
				t.Fatal(err)
			}
			for n, db := range dbs {
				if _, err := db.Heartbeat(t.Context(), []string{"replica-0", "replica-1"}[n], 1, time.Minute); err != nil {
					t.Fatal(err)
				}
			}
		}
		id, root := has(t, dbs[0], 2)
		if packed, _ := rows(t, raw, id); packed != step.packed {
			t.Errorf("%s: %d results are packed, want %d", step.when, packed, step.packed)
		}
		if n := blanks(t, raw, id); (n > 0) != (step.packed > 0) {
			t.Errorf("%s: %d rows have NULL instead of zero", step.when, n)
		}
		if state := claimIn(t, raw, dbs[0]); (state == tree.StatePending) != (step.packed > 0) {
			t.Errorf("%s: the row of a task whose run is claimed has the state %v", step.when, state)
		}
		if state := settledIn(t, raw, dbs[0]); (state == tree.CallWaiting) != (step.packed > 0) {
			t.Errorf("%s: the row of a call whose child has ended has the state %v", step.when, state)
		}
		for _, db := range dbs {
			reads(t, db, id, root, 2)
		}
		from := tree.From{Task: root, Token: tree.Token{Epoch: 1, Nonce: 1}, Attach: 1, Seq: 4}
		ended := map[bool]int{true: 0, false: 1}[step.packed > 0]
		for n, c := range []tree.Command{tree.End{From: from, Answer: says("done")}, tree.Send{Message: says("more").Blocks}} {
			if _, err := dbs[n].Update(t.Context(), id, c); err != nil {
				t.Fatal(err)
			}
			if there, want := count(t, raw, "runs", id), max(ended, n); there != want {
				t.Errorf("%s: after %T there are %d rows of runs, want %d", step.when, c, there, want)
			}
			if out, err := dbs[1-n].Outcome(t.Context(), id, tree.ChildRun{Task: root, Run: 1}); err != nil || out.Answer != "done" {
				t.Errorf("%s: after %T the first run is said to have ended with %+v, %v", step.when, c, out, err)
			}
		}
	}
}

func says(text string) *tree.Message {
	return &tree.Message{Blocks: []tree.Block{tree.Text{Text: text}}}
}

// count is how many rows of a table a session has.
func count(t *testing.T, db *sql.DB, table string, id tree.SessionID) int {
	t.Helper()
	return counted(t, db, table+" WHERE session = $1", id[:])
}

// counted counts rows: of a table, with a condition.
func counted(t *testing.T, db *sql.DB, from string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+from, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

package store

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/coppice-run/coppice/internal/policy"
	"github.com/coppice-run/coppice/internal/tree"
)

// TestChange changes each column alone, and checks that it is among those written.
func TestChange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table table
		row   func() []any
	}{
		"sessions": {sessionTable, newSessionRow},
		"tasks":    {taskTable, func() []any { return taskRow(&tree.Task{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			widths := map[string]int{}
			for i := c.table.fixed; i < len(c.table.columns); i++ {
				was, now := c.row(), c.row()
				alter(t, now[i])
				statement, arguments := c.table.updateStatement(was, now)
				widths[statement] = len(arguments)
				if !slices.Contains(arguments, now[i]) {
					t.Errorf("%s writes nothing of a changed %s", statement, c.table.columns[i])
				}
			}
			if len(widths) != len(c.table.updates)+1 {
				t.Errorf("the statements are %v, want an update for each of %v, and one for all columns", widths, c.table.updates)
			}
			if narrowest, n := c.table.updateStatement(c.row(), c.row()); n == nil || narrowest != c.table.updates[0].name {
				t.Errorf("what has not changed is written with %s, want the first update", narrowest)
			}
		})
	}
}

// TestNewRow gives a new row each column alone, and checks that it is among those written.
func TestNewRow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table table
		fresh func() []any
	}{
		"sessions": {sessionTable, newSessionRow},
		"tasks":    {taskTable, func() []any { return taskRow(&tree.Task{}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			narrow, arguments := c.table.insertStatement(c.fresh())
			if want := len(c.table.columns) - len(c.table.usuallyEmpty); narrow != "new_"+name || len(arguments) != want {
				t.Fatalf("a row with nothing in it is written with %s and %d columns, want %d", narrow, len(arguments), want)
			}
			for i, column := range c.table.columns {
				row := c.fresh()
				alter(t, row[i])
				statement, arguments := c.table.insertStatement(row)
				if !slices.Contains(arguments, row[i]) {
					t.Errorf("%s writes nothing of %s", statement, column)
				}
				want := narrow
				switch unset := slices.Contains(c.table.usuallyEmpty, i); {
				case unset && i < c.table.updates[0].end:
					want = "begun_" + name
				case unset:
					want = "add_" + name
				}
				if statement != want {
					t.Errorf("with %s it is written with %s, want %s", column, statement, want)
				}
			}
		})
	}
}

func newSessionRow() []any { return (&storedSession{}).columns(nil) }

// TestNewSessionsGoTogether writes a session that has more than others with the same statement
// as those.
func TestNewSessionsGoTogether(t *testing.T) {
	t.Parallel()
	shells := &storedSession{Session: tree.Session{Shells: 1}}
	closed := &storedSession{Session: tree.Session{ClosedAt: time.UnixMicro(5)}}
	for want, rows := range map[string][][]any{
		"new_sessions":   {newSessionRow(), newSessionRow()},
		"begun_sessions": {newSessionRow(), shells.columns(nil)},
		"add_sessions":   {shells.columns(nil), closed.columns(nil), newSessionRow()},
	} {
		statement, arguments := sessionTable.insertAllStatement(rows)
		if statement != want || len(arguments) != len(rows) {
			t.Errorf("%d rows are written with %s of %d, want %s", len(rows), statement, len(arguments), want)
		}
	}
}

// TestRowsBeginNarrow opens a session and starts a child as agents do: no row has a column
// yet that is taken for one that comes later, nor, once a worker has claimed it, for one that
// comes later than that.
func TestRowsBeginNarrow(t *testing.T) {
	t.Parallel()
	v, env := tree.NewView(nil), tree.Env{Now: time.Unix(1_800_000_000, 0), NewID: func() [16]byte { return uuid.Must(uuid.NewV7()) }, Replica: "r"}
	agent := &tree.Agent{
		Name: "general", Version: "1", Mode: tree.ModeBoth, Model: "m", MaxIterations: 100,
		Permissions: policy.Permissions{Layer: policy.Layer{Tools: []string{"task", "read"}}}.Pin(),
	}
	child := tree.Child{Agent: agent, AgentName: agent.Name, Description: "a part", Prompt: "do it"}
	for depth, cmd := range []tree.Command{
		tree.CreateSession{
			ID: tree.SessionID{1}, Tenant: "t", Agent: agent, AgentName: agent.Name, Limits: tree.DefaultLimits(),
			Message: []tree.Block{tree.Text{Text: "go"}},
		},
		tree.SpawnTask{Child: child},
	} {
		if _, err := tree.Decide(v, env, cmd); err != nil {
			t.Fatal(err)
		}
		var fresh *tree.Task
		for _, task := range v.Changes().Tasks {
			if task.Depth == depth {
				fresh = task
			}
		}
		for _, want := range []string{"new_tasks", "begun_tasks"} {
			if statement, _ := taskTable.insertStatement(taskRow(fresh)); statement != want {
				t.Errorf("a task of depth %d is written with %s, want %s", depth, statement, want)
			}
			if want == "new_tasks" {
				claim := tree.Claim{Task: fresh.ID, Token: tree.Token{Epoch: fresh.Epoch, Nonce: 7}, Worker: "w"}
				if _, err := tree.Decide(v, env, claim); err != nil {
					t.Fatal(err)
				}
			}
		}
		if statement, _ := sessionTable.insertStatement(sessionRow(v.Session(), &sessionExtras{})); depth == 0 && statement != "new_sessions" {
			t.Errorf("a session is written with %s", statement)
		}
		v.MarkCommitted()
	}
}

// alter changes what a column points to.
func alter(t *testing.T, column any) {
	t.Helper()
	switch c := column.(type) {
	case id16:
		c.id[3]++
	case timeColumn:
		*c.time = time.UnixMicro(5)
	case durationColumn:
		*c.duration = time.Second
	case bitsColumn:
		*c.bits = 1 << 63
	case jsonColumn:
		switch v := c.value.(type) {
		case *[]string:
			*v = []string{"more"}
		case *map[string]string:
			*v = map[string]string{"more": ""}
		case *tree.Limits:
			v.OutputBytes++
		default:
			t.Fatalf("a column of JSON of %T", v)
		}
	default:
		switch v := reflect.ValueOf(column).Elem(); {
		case v.CanInt():
			v.SetInt(7)
		case v.CanUint():
			v.SetUint(7)
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		case v.Kind() == reflect.String:
			v.SetString("x")
		default:
			t.Fatal(fmt.Errorf("a column of type %T", column))
		}
	}
}

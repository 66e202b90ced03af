package assembly_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
)

// agesBeats makes the last heartbeats of all replicas ten seconds older.
const agesBeats = "UPDATE replicas SET beat = beat - 10000000"

// refusesBeats makes the database refuse the heartbeats of one replica.
const refusesBeats = `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON replicas FOR EACH ROW WHEN (NEW.id = '%s') EXECUTE FUNCTION refuse()`

// sql connects to the deployment's PostgreSQL.
func (d *deployment) sql() *pgx.Conn {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.database)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close(d.t.Context()) })
	return conn
}

// execute runs a statement on the deployment's PostgreSQL.
func execute(t *testing.T, conn *pgx.Conn, statement string, to ...any) {
	t.Helper()
	if len(to) == 0 {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := conn.QueryRow(t.Context(), statement).Scan(to...); err != nil {
		t.Fatal(err)
	}
}

// TestAnOrchestratorIsAwayForAWhile: however long the only orchestrator was away, the runs continue
// with their workers, which could not come back meanwhile.
func TestAnOrchestratorIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	for _, database := range []string{"sqlite", "postgres"} {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			const away = 6 * time.Second // longer than a replica may be silent
			d := deploy(t, heldTree)
			if database == "postgres" {
				d.database = pgtest.Start(t).Database(t)
			}
			d.startAll()
			c := d.client()
			session := d.held(c)
			d.kill(orchestratorName(0))
			time.Sleep(away)
			d.startOrchestrator(0)
			d.serves(0)
			d.letGo(c, session)
		})
	}
}

// servers is an agent with eight commands in the background, which write all the time.
const servers = `
steps:
  - when: {turn: 1}
    calls: [{tool: bash, for_each: numbers 8, input: {command: 'while [ ! -e go ]; do date +%N; sleep 0.2; done', description: 'serve {{.Item}}', run_in_background: true}}]
  - {text: served}
`

// TestCommandsSurviveADatabaseOutage takes the database away for so long that the requests of
// workers fail and their streams end. Their commands continue with them.
func TestCommandsSurviveADatabaseOutage(t *testing.T) {
	t.Parallel()
	d, server := replicas(t, servers)
	c := d.client()
	session := c.bypassing("Serve.")
	until(t, "commands", func() bool { return len(c.tasks(session)) == 9 })
	const beats, failed = 4, "a heartbeat failed"
	server.Kill()
	until(t, "heartbeats that fail for long", func() bool { return d.times(failed) >= beats*len(d.addresses) })
	server.Restart()
	until(t, "a database that is back", func() bool {
		_, err := c.ListSessions(c.ctx(), &pb.ListSessionsRequest{})
		return err == nil
	})
	d.write("go", "")
	until(t, "the end of all", func() bool {
		for _, task := range c.tasks(session) {
			switch task.GetState() {
			case pb.TaskState_TASK_STATE_COMPLETED:
			case pb.TaskState_TASK_STATE_FAILED, pb.TaskState_TASK_STATE_CANCELLED:
				t.Fatalf("a %s ended %s %s, though its worker lives", task.GetKind(), task.GetState(), task.GetReason())
			default:
				return false
			}
		}
		return true
	})
	c.sound()
}

// TestTheDatabasesClockIsSetAhead: all replicas seem to be silent then, until their next heartbeats.
func TestTheDatabasesClockIsSetAhead(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, heldTree)
	c := d.client()
	session := d.held(c)
	conn := d.sql()
	const steps, between = 3, 3 * time.Second
	for range steps {
		time.Sleep(between)
		execute(t, conn, agesBeats)
	}
	time.Sleep(between)
	d.letGo(c, session)
}

// TestAReplicaThatCannotSayThatItIsAlive claims no runs: others would take them.
func TestAReplicaThatCannotSayThatItIsAlive(t *testing.T) {
	t.Parallel()
	d, _ := replicas(t, `steps: [{delay: 4s, text: done}]`)
	c := d.client()
	for i := range d.addresses {
		d.serves(i)
	}
	conn := d.sql()
	var muted string
	execute(t, conn, "SELECT min(id) FROM replicas", &muted)
	execute(t, conn, strings.ReplaceAll(refusesBeats, "%s", muted))
	const failures, sessions = 6, 24
	until(t, "heartbeats that fail for longer than a replica may be silent", func() bool {
		return d.times("a heartbeat failed") >= failures
	})
	all := make([]string, sessions)
	for i := range all {
		all[i] = c.create("go").GetId()
	}
	for _, session := range all {
		if root := c.wait(session, ""); root.GetResult() != "done" || root.GetEpoch() != 1 {
			t.Errorf("a run ended with %q in attempt %d", root.GetResult(), root.GetEpoch())
		}
	}
}

// TestADefinitionThatCannotBeRead ends the runs of its agent instead of offering them for ever.
func TestADefinitionThatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{text: done}]`)
	d.database = pgtest.Start(t).Database(t)
	d.startOrchestrator(0)
	d.serves(0)
	session := d.client().create("go").GetId()
	execute(t, d.sql(), "UPDATE agents SET body = 'of a later release'")
	d.kill(orchestratorName(0))
	d.startOrchestrator(0)
	d.serves(0)
	d.startWorker("worker 1")
	root := d.client().wait(session, "")
	if root.GetState() != pb.TaskState_TASK_STATE_FAILED || root.GetReason() != pb.Reason_REASON_POISONED || root.GetEpoch() > 4 {
		t.Errorf("the run ended %s %s in attempt %d", root.GetState(), root.GetReason(), root.GetEpoch())
	}
}

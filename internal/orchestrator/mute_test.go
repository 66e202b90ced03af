package orchestrator

import (
	"context"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// closedStream is a stream whose worker is gone.
type closedStream struct{ WorkStream }

func (closedStream) Context() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// TestAReplicaThatSeemsDeadGivesNoRuns to slots that are offered with the end of their last run, nor
// to slots that stand by, and none continues over its streams: others would take these runs at once.
func TestAReplicaThatSeemsDeadGivesNoRuns(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Config{
		Database: pgtest.Start(t).Database(t), Replica: "r", OnCommit: func(store.Commit) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	bus := new(dispatch.Bus) // nothing here goes to Redis
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	svc, err := New(Config{
		Store: db, Bus: bus, Agents: agentdef.NewLibrary(nil, ""), Replica: "r", Pool: "p", Limits: tree.DefaultLimits(),
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	svc.redisAway.Store(true)
	held := &lease{session: tree.SessionID{1}, task: tree.TaskID{1}, worker: workerInfo{id: "w"}}
	gives := func(want bool) {
		t.Helper()
		a := &exchange{req: &pb.WorkRequest{Takes: &pb.Takes{Nonce: 1}}}
		(&slot{svc: svc}).prepare(a, held, tree.End{})
		a.finish(svc)
		if a.mayGrant != want {
			t.Errorf("the slot may get a run: %v", a.mayGrant)
		}
		back, _, err := (&slot{svc: svc, stream: closedStream{}}).submit(&pb.WorkRequest{Kind: &pb.WorkRequest_Reattach{Reattach: &pb.Reattach{
			SessionId: held.session.String(), TaskId: held.task.String(), Epoch: 1, Nonce: 1,
		}}})
		if refused := tree.CodeOf(back.err) == tree.CodeUnavailable; err != nil || refused == want {
			t.Errorf("a run that wants to continue here is refused: %v, %v", back.err, err)
		}
		back.finish(svc)
		svc.openStandby()
		if svc.standby.closed == want {
			t.Errorf("slots may stand by: %v", !svc.standby.closed)
		}
	}
	svc.contact.confirm(now)
	gives(true)
	now = now.Add(svc.replicaTimeout() + time.Second)
	gives(false)
	svc.contact.confirm(now)
	gives(true)
}

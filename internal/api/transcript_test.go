package api

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/agentdef"
	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/orchestrator"
	"github.com/coppice-run/coppice/internal/store"
	"github.com/coppice-run/coppice/internal/tree"
)

// setup returns an orchestrator whose loops do not run.
func setup(t *testing.T) *orchestrator.Service {
	t.Helper()
	var svc *orchestrator.Service
	db, err := store.Open(t.Context(), store.Config{
		Database: filepath.Join(t.TempDir(), "coppice.db"), Replica: "r", OnCommit: func(c store.Commit) { svc.Committed(c) },
	})
	if err != nil {
		t.Fatal(err)
	}
	redis, err := dispatch.OpenEmbedded()
	if err != nil {
		t.Fatal(err)
	}
	bus, err := dispatch.New(dispatch.Config{Client: redis.Client(), Installation: db.Installation()})
	if err != nil {
		t.Fatal(err)
	}
	svc, err = orchestrator.New(orchestrator.Config{
		Store: db, Bus: bus, Agents: agentdef.NewLibrary(nil, ""), Replica: "r", Pool: "p", Limits: tree.DefaultLimits(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- db.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, db.Close(), redis.Close()); err != nil {
			t.Error(err)
		}
	})
	return svc
}

// receiver receives pieces of a transcript.
type receiver struct {
	grpc.ServerStream
	ctx  context.Context
	take func(*pb.GetTranscriptResponse)
}

func (r *receiver) Context() context.Context { return r.ctx }

func (r *receiver) Send(piece *pb.GetTranscriptResponse) error {
	r.take(piece)
	return nil
}

// TestTranscriptOfADeletedSession: a transcript that is streamed while its session is deleted does
// not look complete, whether or not parts of it were removed already.
func TestTranscriptOfADeletedSession(t *testing.T) {
	t.Parallel()
	const said = 5 * transcriptPage
	for name, remove := range map[string]bool{"deleted": false, "removed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := setup(t)
			session := talk(t, svc, said)
			got := 0
			err := (&taskServer{svc: svc}).GetTranscript(&pb.GetTranscriptRequest{SessionId: session.ID.String()},
				&receiver{ctx: t.Context(), take: func(piece *pb.GetTranscriptResponse) {
					if got += len(piece.GetMessages()); got > transcriptPage {
						return
					}
					if _, err := svc.DeleteSession(t.Context(), session.Tenant, session.ID); err != nil {
						t.Fatal(err)
					}
					for remove && events(t, svc, session) > 0 {
						if _, err := svc.Store.Purge(t.Context()); err != nil {
							t.Fatal(err)
						}
					}
				}})
			if !errors.Is(err, tree.ErrNoSession) {
				t.Errorf("after %d of %d messages the stream has ended with %v", got, said, err)
			}
		})
	}
}

// talk creates a session with so many messages.
func talk(t *testing.T, svc *orchestrator.Service, messages int) *tree.Session {
	t.Helper()
	var lines strings.Builder
	for i := range messages {
		parent, role := "null", []string{"user", "assistant"}[i%2]
		if i > 0 {
			parent = fmt.Sprintf(`"m%d"`, i-1)
		}
		fmt.Fprintf(&lines, `{"uuid":"m%d","parentUuid":%s,"timestamp":"2026-01-01T00:00:00Z","type":%q,"message":{"role":%q,"content":"text"}}`+"\n",
			i, parent, role, role)
	}
	session, _, history, err := svc.ImportSession(t.Context(), "", orchestrator.SessionSpec{}, []byte(lines.String()), orchestrator.Idempotency{})
	if err != nil || len(history.Messages) != messages {
		t.Fatalf("%d messages were taken in (%v)", len(history.Messages), err)
	}
	return session
}

// events counts certain events of a session.
func events(t *testing.T, svc *orchestrator.Service, session *tree.Session) int {
	t.Helper()
	found, err := svc.Store.Events(t.Context(), session.ID, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

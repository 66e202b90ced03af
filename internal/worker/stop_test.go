package worker

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/coppice-run/coppice/internal/dispatch"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/workspace"
)

// TestAWorkerStopsThoughRedisIsFrozen: what it has to say there it gives up soon.
func TestAWorkerStopsThoughRedisIsFrozen(t *testing.T) {
	t.Parallel()
	places, err := workspace.New(workspace.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{
			ContextTimeoutEnabled: true, Dialer: dialFrozen,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}, // which would look up a name
		})
		q := quiet{installation: "i", opened: make(chan time.Time, 100), ended: make(chan time.Time, 100)}
		w, err := New(Config{
			ID: "w", Pool: "default", Slots: 2, Client: q, Places: places, Model: struct{ model.Model }{},
			Bus: func(installation string) (*dispatch.Bus, error) {
				return dispatch.New(dispatch.Config{Client: client, Installation: installation})
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(100 * time.Millisecond)
		w.acks.add("1-0") // its claim has been answered just now
		synctest.Wait()
		stop()
		stopped := time.Now()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(stopped); took > 4*time.Second {
			t.Errorf("it ended %s after it was told to", took)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
}

// dialFrozen dials a Redis that takes what it is sent and says nothing, nor notices that nothing
// more will come.
func dialFrozen(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go io.Copy(io.Discard, there) // until this side is closed
	return halfway{here}, nil
}

type halfway struct{ net.Conn }

func (halfway) CloseWrite() error { return nil }

// TestWhatEndsAnAttemptIsLogged: a run that a worker gives back because it stops is no lost one.
func TestWhatEndsAnAttemptIsLogged(t *testing.T) {
	t.Parallel()
	places, err := workspace.New(workspace.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for want, workCtx := range map[string]context.Context{"the worker stops and gives the run back": ended, "the attempt is over: its run was cancelled, or continues elsewhere": t.Context()} {
		var said strings.Builder
		w := &Worker{Config: Config{Now: time.Now, Places: places, Logger: slog.New(slog.NewTextHandler(&said, nil))}}
		c := w.newConn()
		c.beginAttempt(&pb.Claim{SessionId: "s", TaskId: "t", Epoch: 1, WorkerId: "w"}, nil, nil)
		j := newJournal(c)
		c.loseAttempt()
		w.runAttempt(workCtx, ended, c, &assignment{Assignment: &pb.Assignment{Task: &pb.Task{SessionId: "s", Id: "t"}}}, j)
		if !strings.Contains(said.String(), want) || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("said %q, want %q", said.String(), want)
		}
	}
}

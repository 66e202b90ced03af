package cli

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// unmoved is a session that stands still twice: before its root is taken, and with two
// children of which the first is taken after a while.
const unmoved = `0s r open root Title
0s r start - root
10s r take
20s r park 0/2
20s a start r explore A
20s b start r explore B
25s a take
60s b take`

// TestASessionThatStandsStillIsToldOf once each time, with what waits and why.
func TestASessionThatStandsStillIsToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &plainView{out: &out, theme: newTheme(true, false), forest: newForest()}
		stop := p.watchStalls(t.Context(), func(context.Context) string { return "nobody is there" })
		began := time.Now()
		for _, s := range parseStory(t, unmoved) {
			time.Sleep(time.Until(began.Add(s.at)))
			if err := p.step(s.step); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if got, want := out.String(), `◌ root: queued: nobody is there
● root: started
  ◌ explore "A": queued, and 1 more: nobody is there
  ● explore "A": started
  ● explore "B": started
`; got != want {
			t.Errorf("told\n%s\nwant\n%s", got, want)
		}
	})
}

// TestTheDrawingSaysWhyNothingGoesOn as long as nothing does.
func TestTheDrawingSaysWhyNothingGoesOn(t *testing.T) {
	t.Parallel()
	now := zero
	l := &liveView{
		forest: newForest(), theme: newTheme(true, false), now: func() time.Time { return now },
		why: func() string { return "nobody is there" }, width: 80, height: 5,
	}
	var foot []string
	story := parseStory(t, "0s r open root Title\n0s r start - root\n6s r take")
	for ; now.Before(zero.Add(7 * time.Second)); now = now.Add(time.Second) {
		for len(story) > 0 && !zero.Add(story[0].at).After(now) {
			l.Update(stepMsg{story[0].step})
			story = story[1:]
		}
		if ask := l.checkStalled(); ask != nil {
			l.Update(ask())
		}
		l.Update(tea.WindowSizeMsg{Width: 80, Height: 5})
		_, line, _ := strings.Cut(l.View().Content, "\n")
		foot = append(foot, strings.Split(line, l.theme.separator)[0])
	}
	if got, want := strings.Join(foot, ", "), "1 task, 1 task, 1 task, nobody is there, nobody is there, nobody is there, 1 task"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// listing answers with workers, or refuses.
type listing struct {
	pb.AdminServiceClient
	workers []*pb.Worker
	pool    string
	err     error
}

func (l listing) ListWorkers(context.Context, *pb.ListWorkersRequest, ...grpc.CallOption) (*pb.ListWorkersResponse, error) {
	return &pb.ListWorkersResponse{Workers: l.workers}, l.err
}

func (l listing) GetStats(context.Context, *pb.GetStatsRequest, ...grpc.CallOption) (*pb.GetStatsResponse, error) {
	return &pb.GetStatsResponse{Pool: l.pool}, l.err
}

func TestWhyNobodyTakesARun(t *testing.T) {
	t.Parallel()
	draining := &pb.Worker{Slots: 16, Draining: true}
	full, free := &pb.Worker{Slots: 2, Running: 2}, &pb.Worker{Slots: 2, Running: 1}
	other := &pb.Worker{Slots: 2, Pool: "other"}
	for _, c := range []struct {
		want string
		listing
	}{
		{"no worker has taken it yet", listing{err: status.Error(codes.PermissionDenied, "")}},
		{"no worker is connected", listing{}},
		{"all connected workers are draining", listing{workers: []*pb.Worker{draining}}},
		{"it seems that all slots of 1 worker are in use", listing{workers: []*pb.Worker{draining, full}}},
		{"it seems that all slots of 2 workers are in use", listing{workers: []*pb.Worker{full, full}}},
		{"no worker has taken it yet", listing{workers: []*pb.Worker{full, free}}},
		{"no worker of the pool tools is connected", listing{workers: []*pb.Worker{other}, pool: "tools"}},
	} {
		if got := (&client{admin: c.listing}).whyQueued(t.Context()); got != c.want {
			t.Errorf("said %q, want %q", got, c.want)
		}
	}
}

// TestWorkersAndTheirWork: what is listed says which workers take no runs, and what waits for which reason.
func TestWorkersAndTheirWork(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &app{Process: Process{Stdout: &out, Getenv: func(string) string { return "" }}, now: func() time.Time { return zero.Add(time.Minute) }}
	stats := &pb.GetStatsResponse{
		Replicas: 1, Workers: 2, Slots: 2, Running: 2, Queued: 12, Held: 9, Pool: "tools",
		OldestQueuedTime: timestamppb.New(zero.Add(55 * time.Second)),
	}
	for _, pool := range []string{"tools", "default"} {
		if err := a.printWorker(&pb.Worker{Id: "w", Pool: pool, Slots: 2, StartTime: timestamppb.New(zero)}, stats, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.print(a.statsText(stats)); err != nil {
		t.Fatal(err)
	}
	want := "w     0 of 2    1m00s  \nw     0 of 2    1m00s    of pool default\n" +
		"1 orchestrator - 2 workers - 2 of 2 slots in use - 3 waiting, the oldest for 5.0s - 9 waiting for others to end\n"
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
}

// counting answers as a listing does, and counts how often it is asked.
type counting struct {
	listing
	asked *int
}

func (c counting) ListWorkers(ctx context.Context, req *pb.ListWorkersRequest, options ...grpc.CallOption) (*pb.ListWorkersResponse, error) {
	*c.asked++
	return c.listing.ListWorkers(ctx, req, options...)
}

// TestWhoMayNotListWorkersAsksOnce: an orchestrator logs each call that it refuses. Other failures
// may pass.
func TestWhoMayNotListWorkersAsksOnce(t *testing.T) {
	t.Parallel()
	for code, want := range map[codes.Code]int{codes.PermissionDenied: 1, codes.Unavailable: 3} {
		asked := 0
		c := &client{admin: counting{listing{err: status.Error(code, "")}, &asked}}
		for range 3 {
			if got := c.whyQueued(t.Context()); got != notTaken {
				t.Errorf("%s: said %q", code, got)
			}
		}
		if asked != want {
			t.Errorf("%s: asked %d times, want %d", code, asked, want)
		}
	}
}

package assembly_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/coppice-run/coppice/internal/assembly"
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// deaf breaks streams of a worker when they bring a run with the end of the last one, before
// the worker hears of it, as often as it is to.
type deaf struct{ left atomic.Int64 }

func (d *deaf) streams(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := open(ctx, desc, conn, method, opts...)
	return &deafStream{stream, d}, err
}

type deafStream struct {
	grpc.ClientStream
	*deaf
}

func (s *deafStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if resp, ok := m.(*pb.WorkResponse); ok && err == nil && resp.GetGiven() != nil && s.left.Add(-1) >= 0 {
		return errors.New("it was not heard")
	}
	return err
}

// TestAWorkerAsksForWhatItWasGiven: a run that comes with the end of another is its worker's,
// even if the stream breaks before the worker hears of it. Nobody sees the end of the grace
// here, so it would not go on elsewhere.
func TestAWorkerAsksForWhatItWasGiven(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.grace = unending
	_, addr := a.orchestrator()
	c := a.client(addr)
	d := &deaf{}
	breaks := int64(often(30, 500))
	d.left.Store(breaks)
	conn, err := assembly.Connect(addr, grpc.WithStreamInterceptor(d.streams))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	a.worker(addr, slow, func(w *assembly.Worker) { w.Orchestrator = conn })
	var all []watched
	for d.left.Load() > 0 {
		all = append(all, c.follow(c.create("go").GetId(), func(*pb.Event) {}))
	}
	c.survived(all)
	if n := len(redelivered(all)); n != 0 {
		t.Errorf("%d runs were redelivered", n)
	}
	t.Logf("%d trees, %d runs were not heard of", len(all), breaks)
}

// TestAnOrchestratorStopsWithoutDelay ends an orchestrator in good order over and over. All
// runs are gone on with over the next one, though nobody sees the end of the grace.
func TestAnOrchestratorStopsWithoutDelay(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.grace = unending
	p, addr := a.orchestrator()
	c := a.client(addr)
	a.worker(addr, slow, nil)
	all := c.storm(often(8, 100), 20, func(int) {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		p, _ = a.orchestratorAt(addr)
	})
	c.survived(all)
	t.Logf("%d trees; %d runs were redelivered", len(all), len(redelivered(all)))
}

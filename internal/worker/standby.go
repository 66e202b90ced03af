package worker

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// offer has an idle line wait for a run of the orchestrator's choice, if there is one that lets
// it: takeUp gives that run once standBy is over.
func (l *line) offer(claim *pb.Claim) {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	k := l.link
	if k == nil || l.closed || !k.features().Has(wire.FeatureStandby) {
		l.mu.Unlock()
		return
	}
	claim.Protocol = k.protocol
	l.begin(claim, nil, nil)
	l.over = true
	l.stands = &request{req: &pb.WorkRequest{Takes: &pb.Takes{Nonce: claim.GetNonce()}}}
	l.stood = make(chan struct{})
	l.mu.Unlock()
	if k.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StandBy{StandBy: claim}}) != nil {
		k.cancel()
	}
}

// standBy waits as long as the line waits for a run of the orchestrator's choice, if it does;
// takeUp gives it then. If ctx ends, the orchestrator is told so. What it has given by then is
// the line's all the same.
func (l *line) standBy(ctx context.Context) {
	l.mu.Lock()
	stood := l.stood
	l.mu.Unlock()
	if stood == nil {
		return
	}
	select {
	case <-stood:
		return
	case <-ctx.Done():
	}
	moved, told := l.standDown()
	if !told {
		return
	}
	select {
	case <-stood:
	case <-moved: // whoever has a run for it by now finds nobody
	}
}

// standDown says that the line is not to wait any more, unless there is no stream. There will be
// no answer once requests have moved to another one.
func (l *line) standDown() (moved <-chan struct{}, told bool) {
	l.sending.Lock()
	defer l.sending.Unlock()
	l.mu.Lock()
	k, moved := l.link, l.moved
	l.mu.Unlock()
	if k == nil {
		return nil, false
	}
	if k.send(&pb.WorkRequest{Kind: &pb.WorkRequest_StandDown{StandDown: &pb.StandDown{}}}) != nil {
		k.cancel()
	}
	return moved, true
}

// stoodDown ends the wait, with a run or without.
func (l *line) stoodDown(given *pb.GivenRun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stands != nil && given != nil && !l.closed {
		l.beginGiven(l.stands, given)
	}
	l.standsNoMore()
}

// standsNoMore needs the lock of the line.
func (l *line) standsNoMore() {
	if l.stands != nil {
		l.stands = nil
		close(l.stood)
		l.stood = nil
	}
}

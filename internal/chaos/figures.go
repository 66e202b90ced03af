package chaos

import (
	"fmt"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Figures are the totals of a campaign.
type Figures struct {
	Sessions, Tasks, Runs, Events int
	Attempts, Redelivered         int // deliveries; those that were lost
	Poisoned, Cancelled           int // runs that ended so
	Branches                      int
	MadeWay                       int // attempts that ended because the budget did not allow another call
	RanOut                        int // runs that ended because the budget was spent
	Asked, Repeated               int // model calls; those that were repeated
	Summaries                     int
	Effects                       int
	Allowed, Denied               int // approvals
	Acknowledged                  int // answers recorded by workers and clients
	Watched                       int // events compared by clients
	Refused                       int // attempts that were told that they are over
	Reattached                    int // attempts that continued over another stream
}

// Add adds a session.
func (f *Figures) Add(e *Evidence) {
	p := historyOf(e.Events)
	f.Sessions++
	f.Tasks += len(e.Tasks)
	f.Events += len(e.Events)
	for _, l := range p.order {
		f.Runs += len(l.started)
		if l.branch != nil {
			f.Branches++
		}
		f.Attempts += len(l.deliveries)
		f.Redelivered += l.lostAttempts()
		f.MadeWay += l.madeWay
		for _, a := range l.approvals {
			for _, state := range a.states {
				switch state {
				case pb.ApprovalState_APPROVAL_STATE_ALLOWED:
					f.Allowed++
				case pb.ApprovalState_APPROVAL_STATE_DENIED:
					f.Denied++
				}
			}
		}
		for _, r := range l.results {
			switch {
			case r.GetResult().GetReason() == pb.Reason_REASON_POISONED:
				f.Poisoned++
			case r.GetResult().GetReason() == pb.Reason_REASON_BUDGET_EXHAUSTED:
				f.RanOut++
			case r.GetResult().GetState() == pb.TaskState_TASK_STATE_CANCELLED:
				f.Cancelled++
			}
		}
	}
	asked := map[attemptID]bool{}
	for _, r := range e.Records {
		switch r.Kind {
		case ModelCalled:
			at := attemptID{task: r.Task, epoch: int64(r.Ordinal)}
			if asked[at] {
				f.Repeated++
			}
			asked[at] = true
			f.Asked++
		case Summed:
			f.Summaries++
			f.Acknowledged++
		case Effect:
			f.Effects++
		case Watched:
			f.Watched += len(r.Digests)
		case Lost:
			f.Refused++
		case Reattached:
			f.Reattached++
		case Granting: // its answer counts
		default:
			f.Acknowledged++
		}
	}
}

func (f Figures) String() string {
	return fmt.Sprintf("%d sessions, %d tasks (%d branches), %d runs (%d cancelled, %d poisoned), %d events\n"+
		"%d attempts, %d of them lost and delivered again, %d told that they are over; %d reattachments; %d made way for others; %d runs ended by the budget\n"+
		"%d model calls, %d of them repeated; %d summaries; %d effects; %d approvals given, %d refused\n"+
		"%d acknowledgements and %d watched events held against the database",
		f.Sessions, f.Tasks, f.Branches, f.Runs, f.Cancelled, f.Poisoned, f.Events,
		f.Attempts, f.Redelivered, f.Refused, f.Reattached, f.MadeWay, f.RanOut, f.Asked, f.Repeated, f.Summaries, f.Effects, f.Allowed, f.Denied, f.Acknowledged, f.Watched)
}

// Redeliveries returns how long runs waited for the next offer after the process of their
// worker was killed. killed returns when a worker was killed, if it was.
func Redeliveries(e *Evidence, killed func(worker string) (time.Time, bool)) []time.Duration {
	var out []time.Duration
	for _, l := range historyOf(e.Events).order {
		for _, d := range l.deliveries {
			at, ok := killed(d.worker)
			if ok && d.end.GetReady() != nil && d.end.GetTime().AsTime().After(at) {
				out = append(out, d.end.GetTime().AsTime().Sub(at))
			}
		}
	}
	return out
}

package chaos

import (
	"fmt"
	"time"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Figures is how much a campaign has looked at.
type Figures struct {
	Sessions, Tasks, Runs, Events int
	Attempts, Redelivered         int // deliveries; how many of them were lost
	Poisoned, Cancelled           int // runs that ended so
	MadeWay                       int // attempts that ended for want of budget for one more call
	Asked, Repeated               int // model calls; how many of them for a second time
	Effects                       int
	Acknowledged                  int // answers that workers and clients recorded
	Watched                       int // events that clients compared
	Refused                       int // attempts that were told that they are over
	Reattached                    int // times that an attempt went on over another stream
}

// Add counts a session.
func (f *Figures) Add(e *Evidence) {
	p := historyOf(e.Events)
	f.Sessions++
	f.Tasks += len(e.Tasks)
	f.Events += len(e.Events)
	for _, l := range p.order {
		f.Runs += len(l.started)
		f.Attempts += len(l.deliveries)
		f.Redelivered += l.lostAttempts()
		f.MadeWay += l.madeWay
		for _, r := range l.results {
			switch {
			case r.GetResult().GetReason() == pb.Reason_REASON_POISONED:
				f.Poisoned++
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
		case Effect:
			f.Effects++
		case Watched:
			f.Watched += len(r.Digests)
		case Lost:
			f.Refused++
		case Reattached:
			f.Reattached++
		default:
			f.Acknowledged++
		}
	}
}

func (f Figures) String() string {
	return fmt.Sprintf("%d sessions, %d tasks, %d runs (%d cancelled, %d poisoned), %d events\n"+
		"%d attempts, %d of them lost and delivered again, %d told that they are over; %d reattachments; %d made way for others\n"+
		"%d model calls, %d of them repeated; %d effects\n"+
		"%d acknowledgements and %d watched events held against the database",
		f.Sessions, f.Tasks, f.Runs, f.Cancelled, f.Poisoned, f.Events,
		f.Attempts, f.Redelivered, f.Refused, f.Reattached, f.MadeWay, f.Asked, f.Repeated, f.Effects, f.Acknowledged, f.Watched)
}

// Redeliveries says how long runs waited to be offered again after the process of
// their worker was ended from outside; killed says when that was, if it was.
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

package chaos

import pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"

// Figures is how much a campaign has looked at.
type Figures struct {
	Sessions, Tasks, Runs, Events int
	Attempts, Redelivered         int // deliveries; how many of them were lost
	Poisoned, Cancelled           int // runs that ended so
	Asked, Repeated               int // model calls; how many of them for a second time
	Effects                       int
	Acknowledged                  int // answers that workers and clients recorded
	Watched                       int // events that clients compared
	Refused                       int // attempts that were told that they are over
}

// Add counts a session.
func (f *Figures) Add(e *Evidence) {
	p := recount(e.Events)
	f.Sessions++
	f.Tasks += len(e.Tasks)
	f.Events += len(e.Events)
	for _, l := range p.order {
		f.Runs += len(l.started)
		f.Attempts += len(l.deliveries)
		f.Redelivered += l.lost()
		for _, r := range l.results {
			switch {
			case r.GetResult().GetReason() == pb.Reason_REASON_POISONED:
				f.Poisoned++
			case r.GetResult().GetState() == pb.TaskState_TASK_STATE_CANCELLED:
				f.Cancelled++
			}
		}
	}
	asked := map[token]bool{}
	for _, r := range e.Records {
		switch r.Kind {
		case Asked:
			at := token{task: r.Task, epoch: int64(r.Ordinal)}
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
		default:
			f.Acknowledged++
		}
	}
}

package drill

import (
	"fmt"
	"slices"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Victim is what a fault breaks.
type Victim int

// The victims.
const (
	Worker       Victim = iota // its process is killed
	Orchestrator               // its process is killed
	Link                       // between the two: cut
	Redis                      // emptied
	victimCount
)

func (v Victim) String() string {
	return [...]string{"worker killed", "orchestrator killed", "link cut", "Redis emptied"}[v]
}

// Step is something that a worker has an orchestrator store.
type Step int

// The steps.
const (
	Claim      Step = iota // a worker takes a run
	Answer                 // a model has answered, and asks for tools
	Start                  // a tool that may not run twice is about to run
	Result                 // a tool has a result
	Spawn                  // sub-agents, or commands in the background, start
	Wait                   // a call waits for another task
	Park                   // a run gives its slot back until its calls have results
	Ask                    // whether a call may run
	Summary                // a summary takes the place of messages
	Hooks                  // hooks on the start of a sub-agent have run
	End                    // a run ends
	CommandEnd             // a command in the background ends
	stepCount
)

func (s Step) String() string {
	return [...]string{
		"claim", "answer", "tool start", "tool result", "spawn", "wait", "park", "question", "summary", "hooks", "end", "command end",
	}[s]
}

// stepOf says which step a request is; false if it is none.
func stepOf(req *pb.WorkRequest) (Step, bool) {
	switch req.GetKind().(type) {
	case *pb.WorkRequest_Claim:
		return Claim, true
	case *pb.WorkRequest_Append:
		return Answer, true
	case *pb.WorkRequest_CallStarted:
		return Start, true
	case *pb.WorkRequest_CallClose:
		return Result, true
	case *pb.WorkRequest_Spawn:
		return Spawn, true
	case *pb.WorkRequest_WaitFor:
		return Wait, true
	case *pb.WorkRequest_Park:
		return Park, true
	case *pb.WorkRequest_Ask:
		return Ask, true
	case *pb.WorkRequest_Compact:
		return Summary, true
	case *pb.WorkRequest_StartHooks:
		return Hooks, true
	case *pb.WorkRequest_End, *pb.WorkRequest_StopHooks:
		return End, true
	case *pb.WorkRequest_CommandEnd:
		return CommandEnd, true
	}
	return 0, false
}

// Moment is when a fault happens: at the N-th step of a kind, counted from 1 over the whole
// tree, before it is stored or after, when the worker has not heard of that yet.
type Moment struct {
	Step  Step
	N     int
	After bool
}

func (m Moment) String() string {
	if m.After {
		return fmt.Sprintf("after %s %d", m.Step, m.N)
	}
	return fmt.Sprintf("before %s %d", m.Step, m.N)
}

// Fault is what is broken, and when.
type Fault struct {
	Victim Victim
	Moment Moment
}

// isDistinct reports whether a fault differs from others: Redis has no part in storing a step.
func (f Fault) isDistinct() bool { return f.Victim != Redis || f.Moment.After }

// StepCounts is how often a tree has had each step.
type StepCounts [stepCount]int

// Total counts the steps.
func (s StepCounts) Total() (n int) {
	for _, of := range s {
		n += of
	}
	return n
}

// Plan chooses faults for a tree that has had these steps without any, at most so many; 0 is
// all that there are. Few of them are as unlike as they can be: first each step with one
// victim, then with another one, then again at other times; and never two in a row at the
// same time of the tree, if it has had a step more than once.
func Plan(seen StepCounts, most int) []Fault {
	var all []Fault
	var times [stepCount][]int
	for step, count := range seen {
		times[step] = bisectionOrder(count)
	}
	for round := range slices.Max(seen[:]) {
		for pass := range int(victimCount) {
			for step, numbers := range times {
				for i, after := range []bool{false, true} {
					if round >= len(numbers) {
						continue
					}
					turn := 2*step + i + pass
					number := numbers[(round+turn)%len(numbers)]
					f := Fault{Victim(turn) % victimCount, Moment{Step(step), number, after}}
					if f.isDistinct() {
						all = append(all, f)
					}
				}
			}
		}
		if most > 0 && len(all) >= most {
			return all[:most]
		}
	}
	return all
}

// bisectionOrder gives the numbers from 1 to n so that few of them are far apart: the one in the
// middle, then those in the middle of both halves, and so on.
func bisectionOrder(n int) []int {
	type half struct{ from, to int }
	found := make([]int, 0, n)
	for left := []half{{1, n}}; len(left) > 0; left = left[1:] {
		h := left[0]
		if h.from > h.to {
			continue
		}
		middle := (h.from + h.to) / 2
		found = append(found, middle)
		left = append(left, half{h.from, middle - 1}, half{middle + 1, h.to})
	}
	return found
}

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
	Link                       // the connection between the two is cut
	Redis                      // it is emptied
	victimCount
)

func (v Victim) String() string {
	return [...]string{"worker killed", "orchestrator killed", "link cut", "Redis emptied"}[v]
}

// Step is a request of a worker that the orchestrator stores.
type Step int

// The steps.
const (
	Claim      Step = iota // a worker claims a run
	Answer                 // a model has answered with tool calls
	Start                  // a tool that must not run twice is about to run
	Result                 // a tool has a result
	Spawn                  // sub-agents or background commands start
	Wait                   // a call waits for another task
	Park                   // a run releases its slot until its calls have results
	Ask                    // a run asks whether a call may run
	Summary                // a summary replaces messages
	Hooks                  // hooks on the start of a sub-agent have run
	End                    // a run ends
	CommandEnd             // a background command ends
	stepCount
)

func (s Step) String() string {
	return [...]string{
		"claim", "answer", "tool start", "tool result", "spawn", "wait", "park", "question", "summary", "hooks", "end", "command end",
	}[s]
}

// stepOf returns the step of a request; false if it is not a step.
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
// tree. It is before the step is stored or, with After, when it is stored and the worker does
// not know it yet.
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

// isDistinct reports whether a fault differs from all others. Emptying Redis before a step
// equals emptying it after the step, because Redis is not involved in storing it.
func (f Fault) isDistinct() bool { return f.Victim != Redis || f.Moment.After }

// StepCounts is how often a tree had each step.
type StepCounts [stepCount]int

// Total returns the number of steps.
func (s StepCounts) Total() (n int) {
	for _, of := range s {
		n += of
	}
	return n
}

// Plan chooses at most this many faults for a tree that had these steps without faults; 0 means
// all. A short plan varies as much as possible: first each step with one victim, then with
// another, then again at other times. Consecutive faults of a step happen at different times,
// if the tree has had the step more than once.
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

// bisectionOrder returns the numbers from 1 to n in an order in which any first few are spread
// out: the middle, then the middles of both halves, and so on.
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
